#include "benchmarks/open_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "benchmarks/time_units_testing.h"

namespace dlsm::bench {
namespace {

// Time passes when somebody waits, or when the test says so.
class FakeClock : public ArrivalClock {
 public:
  uint64_t NowNs() override { return now_; }
  uint64_t WaitUntil(uint64_t ns) override { return now_ = std::max(now_, ns); }
  void Advance(uint64_t ns) { now_ += ns; }

 private:
  uint64_t now_ = 12'345;
};

// One writer, 1000 arrivals in one second; write number `slow` takes `slow_ns`, the others no time.
class OneSlowWrite {
 public:
  OneSlowWrite(uint64_t slow, uint64_t slow_ns) : slow_(slow), slow_ns_(slow_ns) {}

  void RunOpen(uint64_t drain_ns) {
    const ArrivalSchedule schedule({.mean_rate = 1000}, 1);
    OpenLoop(schedule, clock_, drain_ns)
        .Run(
            start_, [this] { return Write(); }, &latencies, &series_.recorder(0));
    series_.recorder(0).Finish();
  }
  // Each write takes a millisecond here, or the fake time would stand still.
  void RunClosed() {
    const auto write = [this] {
      clock_.Advance(kMs);
      return Write();
    };
    RunClosedLoop(kSecond, clock_, start_, write, &latencies, &series_.recorder(0));
    series_.recorder(0).Finish();
  }
  std::vector<SecondRow> Rows() const { return series_.Rows(); }

  WriteLatencies latencies;

 private:
  bool Write() {
    if (count_++ == slow_) clock_.Advance(slow_ns_);
    return true;
  }

  const uint64_t slow_;
  const uint64_t slow_ns_;
  uint64_t count_ = 0;
  FakeClock clock_;
  CommonStart start_;
  TimeSeries series_{1};
};

double SumMs(const Histogram& ns) { return ns.Mean() * static_cast<double>(ns.count()) / kMs; }

// The test for coordinated omission. A stall of 200 ms at arrival 100 holds up that one and the 199
// that arrive during it, by 200, 199, ... 1 ms. Fails if only the write that was under way is slow.
TEST(OpenLoopTest, AStallShowsInEveryArrivalThatWaitedForIt) {
  OneSlowWrite run(100, 200 * kMs);
  run.RunOpen(0);
  EXPECT_EQ(run.latencies.write_ns.count(), 1000u);
  EXPECT_EQ(run.latencies.write_ns.max(), 200 * kMs);
  EXPECT_NEAR(SumMs(run.latencies.write_ns), 200 * 201 / 2, 1e-6);
  // 80.0% wait for nothing, 90% at most 100 ms, 99% at most 190 ms.
  EXPECT_EQ(run.latencies.write_ns.Percentile(80), 0);
  EXPECT_NEAR(run.latencies.write_ns.Percentile(90), 100 * kMs, 2 * kMs);
  EXPECT_NEAR(run.latencies.write_ns.Percentile(99), 190 * kMs, 3 * kMs);
  // The processing latency alone would hide it.
  EXPECT_EQ(run.latencies.processing_ns.count(), 1000u);
  EXPECT_NEAR(SumMs(run.latencies.processing_ns), 200, 1e-6);
  EXPECT_EQ(run.latencies.processing_ns.Percentile(99.8), 0);
  EXPECT_EQ(run.latencies.completed_in_time, 1000u);
}

// What the open loop is for: the closed loop asks nothing during the stall. Fails if the testing
// phase counts what was completed after its end.
TEST(OpenLoopTest, TheClosedLoopSeesOneSlowWrite) {
  OneSlowWrite run(100, 200 * kMs);
  run.RunClosed();
  EXPECT_EQ(run.latencies.write_ns.count(), 800u);
  EXPECT_EQ(run.latencies.write_ns.max(), 201 * kMs);
  EXPECT_NEAR(SumMs(run.latencies.write_ns), 1000, 1e-6);
  EXPECT_EQ(run.latencies.completed_in_time, 799u) << "the last ended with the second, not in it";
}

// Fails if the backlog at the end of the schedule is forgotten: it is worked off and counts.
TEST(OpenLoopTest, TheBacklogAtTheEndCounts) {
  OneSlowWrite run(900, 300 * kMs);
  run.RunOpen(kSecond);
  EXPECT_EQ(run.latencies.write_ns.count(), 1000u);
  EXPECT_EQ(run.latencies.processing_ns.count(), 1000u);
  EXPECT_EQ(run.latencies.completed_in_time, 900u);
  // Arrivals 900 to 999 complete at 1.2 s: 300, 299, ... 201 ms.
  EXPECT_NEAR(SumMs(run.latencies.write_ns), 100 * (300 + 201) / 2.0, 1e-6);
  const std::vector<SecondRow> rows = run.Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].arrivals, 1000u);
  EXPECT_EQ(rows[0].completions, 900u);
  EXPECT_DOUBLE_EQ(rows[0].max_us, 300'000) << "of those that arrived in it";
  EXPECT_EQ(rows[1].arrivals, 0u);
  EXPECT_EQ(rows[1].completions, 100u);
}

// Fails if a store that stands still makes the run endless, or if the arrivals left undone vanish.
TEST(OpenLoopTest, ArrivalsLeftUndoneHaveTheLatencyOfWhatTheyWaited) {
  OneSlowWrite run(400, 10 * kSecond);
  run.RunOpen(kSecond / 2);
  EXPECT_EQ(run.latencies.write_ns.count(), 1000u);
  EXPECT_EQ(run.latencies.processing_ns.count(), 401u);
  // Given up at 1.5 s: arrivals 401 to 999 waited 1099, ... 501 ms; 400 itself took 10 s.
  EXPECT_NEAR(SumMs(run.latencies.write_ns), 10'000 + 599 * (1099 + 501) / 2.0, 1e-6);
}

// Fails if a failure does not end the loop of the threads.
TEST(OpenLoopTest, AFailedWriteEndsTheLoop) {
  const ArrivalSchedule schedule({.mean_rate = 1000}, 1);
  FakeClock clock;
  CommonStart start;
  TimeSeries series(2);
  OpenLoop loop(schedule, clock, 0);
  WriteLatencies latencies;
  uint64_t calls = 0;
  loop.Run(
      start, [&] { return ++calls < 10; }, &latencies, &series.recorder(0));
  EXPECT_EQ(calls, 10u);
  EXPECT_EQ(latencies.write_ns.count(), 9u) << "the failed one is none";
  loop.Run(
      start, [&] { return ++calls < 1000; }, &latencies, &series.recorder(1));
  EXPECT_EQ(calls, 10u) << "nor does another thread go on";
}

// Fails if threads lose or repeat arrivals, or one begins before its time.
TEST(OpenLoopTest, ThreadsShareTheArrivalsOut) {
  constexpr size_t kThreads = 4;
  const ArrivalSchedule schedule({.mean_rate = 50'000}, 0.2);
  const TickClock ticks;
  TickArrivalClock clock(ticks);
  CommonStart start;
  TimeSeries series(kThreads);
  OpenLoop loop(schedule, clock, 60 * kSecond);
  std::vector<WriteLatencies> latencies(kThreads);
  std::atomic<uint64_t> writes{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      loop.Run(
          start, [&] { return ++writes > 0; }, &latencies[i], &series.recorder(i));
      series.recorder(i).Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(writes, 10'000u);
  WriteLatencies sum;
  for (const WriteLatencies& one : latencies) sum.Merge(one);
  EXPECT_EQ(sum.write_ns.count(), 10'000u);
  EXPECT_GE(clock.NowNs(), schedule.AtNs(9999)) << "the schedule takes its time";
  EXPECT_GE(sum.write_ns.Mean(), sum.processing_ns.Mean());
}

// Fails if a wait ends early.
TEST(ArrivalClockTest, WaitsUntilTheTime) {
  const TickClock ticks;
  TickArrivalClock clock(ticks);
  for (const uint64_t wait : {uint64_t{0}, 3'000 * uint64_t{1}, 100 * kMs / 1000, 2 * kMs}) {
    const uint64_t until = clock.NowNs() + wait;
    EXPECT_GE(clock.WaitUntil(until), until);
  }
  const uint64_t now = clock.NowNs();
  EXPECT_GE(clock.WaitUntil(0), now) << "a time that has passed";
}

}  // namespace
}  // namespace dlsm::bench
