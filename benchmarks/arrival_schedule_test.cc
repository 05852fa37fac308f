#include "benchmarks/arrival_schedule.h"

#include <gtest/gtest.h>

#include "benchmarks/time_units_testing.h"

namespace dlsm::bench {
namespace {

uint64_t CountIn(const ArrivalSchedule& schedule, uint64_t begin_ns, uint64_t end_ns) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < schedule.count(); ++i) {
    if (begin_ns <= schedule.AtNs(i) && schedule.AtNs(i) < end_ns) ++count;
  }
  return count;
}

void ExpectAscending(const ArrivalSchedule& schedule) {
  for (uint64_t i = 1; i < schedule.count(); ++i) {
    ASSERT_LE(schedule.AtNs(i - 1), schedule.AtNs(i)) << "arrival " << i;
  }
}

// Fails if an arrival is lost, doubled or put off where seconds meet.
TEST(ArrivalScheduleTest, ConstantArrivalsAreEquallyFarApart) {
  const ArrivalSchedule schedule({.mean_rate = 1000}, 3);
  EXPECT_EQ(schedule.count(), 3000u);
  EXPECT_EQ(schedule.AtNs(0), 0u);
  EXPECT_EQ(schedule.AtNs(1), 1'000'000u);
  EXPECT_EQ(schedule.AtNs(2999), 2'999'000'000u);
  for (uint64_t second = 0; second < 3; ++second) {
    EXPECT_EQ(CountIn(schedule, second * kSecond, (second + 1) * kSecond), 1000u) << second;
  }
  ExpectAscending(schedule);
}

// Fails if a rate or a length that is no whole number is rounded to one.
TEST(ArrivalScheduleTest, ConstantRatesMayBeFractions) {
  EXPECT_EQ(ArrivalSchedule({.mean_rate = 0.5}, 3).count(), 2u) << "at 0 s and 2 s";
  EXPECT_EQ(ArrivalSchedule({.mean_rate = 3}, 1).count(), 3u);
  EXPECT_EQ(ArrivalSchedule({.mean_rate = 1e6 / 3}, 30).count(), 10'000'000u);
  EXPECT_EQ(ArrivalSchedule({.mean_rate = 1000}, 0.5).count(), 500u);
  EXPECT_EQ(ArrivalSchedule({.mean_rate = 1000}, 0).count(), 0u);
}

// Quiet: 25 s at 1000, burst: 5 s at 4000, so 45,000 in 30 s: 1500 a second. Fails if bursts are at
// another place, of another size, or change the mean.
TEST(ArrivalScheduleTest, BurstsHaveTheirExactCounts) {
  const ArrivalPlan plan = {.pattern = ArrivalPattern::kBursty,
                            .mean_rate = 1500,
                            .burst_factor = 4,
                            .burst_seconds = 5,
                            .burst_period_seconds = 30};
  const ArrivalSchedule schedule(plan, 90);
  EXPECT_DOUBLE_EQ(schedule.quiet_rate(), 1000);
  EXPECT_DOUBLE_EQ(schedule.burst_rate(), 4000);
  EXPECT_EQ(schedule.count(), 3 * 45'000u);
  for (uint64_t second = 0; second < 90; ++second) {
    const uint64_t expected = second % 30 < 25 ? 1000 : 4000;
    EXPECT_EQ(CountIn(schedule, second * kSecond, (second + 1) * kSecond), expected) << second;
  }
  ExpectAscending(schedule);
}

// Fails if a schedule that ends within a period counts the whole of it, or none.
TEST(ArrivalScheduleTest, BurstyScheduleMayEndAnywhere) {
  const ArrivalPlan plan = {.pattern = ArrivalPattern::kBursty,
                            .mean_rate = 1500,
                            .burst_factor = 4,
                            .burst_seconds = 5,
                            .burst_period_seconds = 30};
  EXPECT_EQ(ArrivalSchedule(plan, 10).count(), 10'000u);
  EXPECT_EQ(ArrivalSchedule(plan, 26).count(), 29'000u);
  EXPECT_EQ(ArrivalSchedule(plan, 31).count(), 46'000u);
}

// Fails if rounding lets arrivals run backwards where periods hold a fraction of an arrival.
TEST(ArrivalScheduleTest, BurstyTimesAscendWhateverTheRate) {
  for (const double rate : {7.3, 1234.567, 98'765.4321}) {
    const ArrivalPlan plan = {.pattern = ArrivalPattern::kBursty,
                              .mean_rate = rate,
                              .burst_factor = 3.7,
                              .burst_seconds = 0.31,
                              .burst_period_seconds = 1.07};
    const ArrivalSchedule schedule(plan, 20);
    ExpectAscending(schedule);
    // Not a whole number of periods: the share of the last one may be smaller than the mean's.
    EXPECT_NEAR(static_cast<double>(schedule.count()), rate * 20, rate * 1.07);
  }
}

}  // namespace
}  // namespace dlsm::bench
