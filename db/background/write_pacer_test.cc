#include "db/background/write_pacer.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using PacerClock = WritePacer::Clock;

// Fails if writers are slowed down too early, not in proportion, or to a standstill.
TEST(WritePacerTest, PaceFollowsWhatIsLeft) {
  EXPECT_EQ(PaceFor(0, 1e9), 0);
  EXPECT_EQ(PaceFor(0.5, 1e9), 0);
  EXPECT_EQ(PaceFor(0.9, 0), 0) << "nothing known to go by";
  EXPECT_DOUBLE_EQ(PaceFor(0.75, 1e9), 1e9);
  EXPECT_DOUBLE_EQ(PaceFor(0.875, 1e9), 0.5e9);
  EXPECT_GT(PaceFor(1, 1e9), 0);
  EXPECT_GT(PaceFor(7, 1e9), 0);
}

// Fails if the rate is that of another time than the last memtables took, waits included.
TEST(WritePacerTest, SustainedRateIsThatOfTheLastMemtables) {
  SustainedRate rate;
  PacerClock::time_point now = PacerClock::now();
  EXPECT_EQ(rate.Get(now), 0);
  rate.Add(1000, now);
  EXPECT_EQ(rate.Get(now), 0);
  now += std::chrono::seconds(1);
  rate.Add(1000, now);
  EXPECT_DOUBLE_EQ(rate.Get(now), 1000);
  EXPECT_DOUBLE_EQ(rate.Get(now + std::chrono::seconds(1)), 500);
  for (int i = 0; i < 100; ++i) rate.Add(1000, now += std::chrono::seconds(10));
  EXPECT_DOUBLE_EQ(rate.Get(now), 100);
}

// Fails if a pause makes what can be sustained look less, so that those who write after it are
// slowed down to what came through meanwhile: nothing.
TEST(WritePacerTest, PausesAreNoPartOfTheSustainedRate) {
  SustainedRate rate;
  PacerClock::time_point now = PacerClock::now();
  rate.Look(false, now);
  rate.Add(1000, now);
  const auto pass = [&](int steps, bool busy) {
    for (int i = 0; i < steps; ++i) rate.Look(busy, now += milliseconds(100));
  };
  pass(10, true);
  rate.Add(1000, now);
  EXPECT_DOUBLE_EQ(rate.Get(now), 1000);
  pass(36000, false);
  EXPECT_DOUBLE_EQ(rate.Get(now), 1000);
  // Who waits is as good as who writes.
  pass(10, true);
  EXPECT_DOUBLE_EQ(rate.Get(now), 500);
  rate.Add(1000, now);
  pass(36000, false);
  EXPECT_DOUBLE_EQ(rate.Get(now), 1000);
  // Not known yet whether this is a pause.
  EXPECT_DOUBLE_EQ(rate.Get(now + std::chrono::seconds(2)), 500);
}

// Fails if time in which nobody wrote is saved up for a burst.
TEST(WritePacerTest, IdleTimeIsNotSavedUp) {
  WritePacer pacer;
  const PacerClock::time_point start = PacerClock::now();
  EXPECT_EQ(pacer.Take(1 << 20, start).count(), 0) << "no rate yet";
  pacer.SetRate(1e6, start);
  EXPECT_EQ(pacer.Take(50'000, start + std::chrono::seconds(10)).count(), 0);
  EXPECT_EQ(pacer.Take(1, start + std::chrono::seconds(10)), milliseconds(50));
}

// Takes a hundred bytes each millisecond from `start` on; returns how long it was asked to wait in
// all.
std::chrono::nanoseconds WaitsOfSmallWrites(WritePacer* pacer, PacerClock::time_point start,
                                            int count) {
  std::chrono::nanoseconds waits{};
  for (PacerClock::time_point now = start; count > 0; --count) {
    const std::chrono::nanoseconds wait = pacer->Take(100, now);
    waits += wait;
    now += wait + milliseconds(1);
  }
  return waits;
}

// A large write at a trickle, then the rate is high: what the write owes are bytes, not the time
// that they would have taken. Fails if those who come next wait as if the rate had stayed low.
TEST(WritePacerTest, WhatIsOwedIsPaidAtTheNewRate) {
  const PacerClock::time_point start = PacerClock::now();
  WritePacer pacer;
  pacer.SetRate(double{64 << 10}, start);
  EXPECT_EQ(pacer.Take(uint64_t{64} << 20, start).count(), 0);
  pacer.SetRate(1e9, start);
  EXPECT_LT(WaitsOfSmallWrites(&pacer, start, 100), milliseconds(70));
  EXPECT_EQ(pacer.Take(100, start + milliseconds(100)).count(), 0);
  // And longer where it falls.
  pacer.Take(uint64_t{10} << 20, start + milliseconds(200));
  pacer.SetRate(5e8, start + milliseconds(200));
  const auto wait = pacer.Take(100, start + milliseconds(200));
  EXPECT_GT(wait, milliseconds(19));
  EXPECT_LT(wait, milliseconds(25));
}

// Fails if a pace begins with what was owed before there was none.
TEST(WritePacerTest, NothingIsOwedFromBeforeThereWasNoLimit) {
  const PacerClock::time_point start = PacerClock::now();
  WritePacer pacer;
  pacer.SetRate(double{64 << 10}, start);
  EXPECT_EQ(pacer.Take(uint64_t{64} << 20, start).count(), 0);
  pacer.SetRate(0, start);
  pacer.SetRate(1e9, start);
  EXPECT_EQ(pacer.Take(100, start).count(), 0);
}

// Fails if one write, or a crowd of writers each of whom waits no longer than the longest sleep,
// leaves a debt that keeps slowing down those who come long after; or if the sum overflows.
TEST(WritePacerTest, WhatIsOwedIsBounded) {
  const PacerClock::time_point start = PacerClock::now();
  WritePacer pacer;
  pacer.SetRate(1, start);
  for (int i = 0; i < 1000; ++i) pacer.Take(UINT64_MAX, start);
  EXPECT_EQ(pacer.Take(0, start), milliseconds(100));
  EXPECT_EQ(pacer.Take(0, start + WritePacer::kOwedMax).count(), 0);
  pacer.SetRate(0.001, start);
  EXPECT_EQ(pacer.Take(0, start), milliseconds(100));
  EXPECT_EQ(pacer.Take(0, start + WritePacer::kOwedMax).count(), 0);
}

}  // namespace
}  // namespace dlsm
