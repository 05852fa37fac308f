#include "benchmarks/two_phase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "benchmarks/bench_runner.h"
#include "benchmarks/map_engine_testing.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;

// Stands still for `stall` at one put, and says so.
class StallingEngine : public MapEngine {
 public:
  void StallAt(uint64_t put, std::chrono::milliseconds stall) {
    puts_ = 0;
    quirks.loses = [this, put, stall](const Slice& /*key*/) {
      if (++puts_ == put) {
        std::this_thread::sleep_for(stall);
        const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(stall);
        stalled_micros_ += static_cast<uint64_t>(micros.count());
      }
      return false;
    };
  }
  std::vector<StallTotal> Stalls() override {
    return {{"test", stalled_micros_.load(), {}}, {"counted", {}, 7}};
  }
  TreeState Tree() override { return TreeOfLevels({3, 0, 5}); }
  Status ScheduleMergesSustainably(bool sustainably) override {
    schedules_.push_back(sustainably ? "fair" : "as before");
    return sustainably ? cannot_be_sustainable : Status::OK();
  }
  Status WaitForBackgroundWork() override {
    schedules_.push_back("quiet");
    return Status::OK();
  }
  std::vector<std::string> schedules_;
  Status cannot_be_sustainable;

 private:
  std::atomic<uint64_t> puts_{0};
  std::atomic<uint64_t> stalled_micros_{0};
};

class TwoPhaseTest : public testing::Test {
 protected:
  TwoPhaseTest() {
    options_.num = 300;
    options_.value_bytes = 50;
    options_.progress = false;
    options_.two_phase.warmup_seconds = 0.02;
    options_.two_phase.testing_seconds = 0.1;
    options_.two_phase.running_seconds = 0.1;
  }

  // The database is what the workload leaves, or the test fails.
  BenchResult Run() {
    BenchRunner runner(options_, "map", engine_);
    EXPECT_TRUE(runner.Open().ok());
    BenchResult result = runner.Run(*FindWorkload("twophase"));
    EXPECT_TRUE(runner.Run(*FindWorkload("verify")).status.ok());
    return result;
  }
  static std::optional<double> Figure(const BenchResult& result, const std::string& name) {
    for (const NamedFigure& figure : result.figures) {
      if (figure.name == name) return figure.value;
    }
    ADD_FAILURE() << "no figure " << name;
    return std::nullopt;
  }
  static double Known(const BenchResult& result, const std::string& name) {
    return Figure(result, name).value_or(-1);
  }

  BenchOptions options_;
  StallingEngine engine_;
};

// 2000 arrivals in a second; a stall of 300 ms holds up the 600 that arrive during it, so a quarter
// of all wait for 50 ms or more. The bounds hold however busy the machine is. Fails if the stall
// shows in one write only.
TEST_F(TwoPhaseTest, AStallShowsInTheLatencyOfQueuedArrivals) {
  options_.two_phase.arrival_rate = 2000;
  options_.two_phase.running_seconds = 1;
  options_.two_phase.time_series = testing::TempDir() + "two_phase_test_a.csv";
  engine_.StallAt(500, std::chrono::milliseconds(300));
  const BenchResult result = Run();
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(Known(result, "arrivals"), 2000);
  EXPECT_EQ(Known(result, "completions"), 2000);
  EXPECT_GE(result.latencies.p75_us, 45'000);
  EXPECT_GE(Known(result, "write_p99_us"), 280'000);
  EXPECT_GE(Known(result, "write_max_us"), 300'000);
  EXPECT_GE(Known(result, "processing_max_us"), 300'000);
  EXPECT_LT(Known(result, "processing_p99_us"), 100'000);

  EXPECT_DOUBLE_EQ(Known(result, "running_stall_ms_test"), 300);
  EXPECT_EQ(Known(result, "running_stalls_counted"), 0) << "none in this phase";
  EXPECT_EQ(Known(result, "components_mean"), 4);
  EXPECT_EQ(Known(result, "tables_max"), 8);
  EXPECT_EQ(Figure(result, "pending_bytes_max"), std::nullopt);
  EXPECT_EQ(Figure(result, "max_throughput"), std::nullopt) << "there was no testing phase";
}

// Fails if the testing phase measures another schedule than the fair one, or the running phase
// that.
TEST_F(TwoPhaseTest, OnlyTheTestingPhaseMergesFairly) {
  ASSERT_TRUE(Run().status.ok());
  EXPECT_THAT(engine_.schedules_, testing::ElementsAre("fair", "quiet", "as before", "quiet"));
  engine_.schedules_.clear();
  options_.two_phase.arrival_rate = 1000;
  ASSERT_TRUE(Run().status.ok());
  EXPECT_THAT(engine_.schedules_, testing::ElementsAre("quiet"));
}

// Fails if a measurement goes on that is not the one that was asked for.
TEST_F(TwoPhaseTest, AStoreThatCannotScheduleSoIsNotMeasured) {
  engine_.cannot_be_sustainable = Status::IOError("gone");
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_TRUE(runner.Run(*FindWorkload("twophase")).status.IsIOError());
}

// Fails if the file says something else than the figures.
TEST_F(TwoPhaseTest, TheTimeSeriesAddsUp) {
  options_.two_phase.arrival_rate = 1500;
  options_.two_phase.running_seconds = 1.5;
  options_.threads = 3;
  options_.two_phase.time_series = testing::TempDir() + "two_phase_test_b.csv";
  ASSERT_TRUE(TimeSeriesFile(options_.two_phase.time_series).Create().ok());
  engine_.StallAt(300, std::chrono::milliseconds(100));
  const BenchResult result = Run();
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();

  std::ifstream file(options_.two_phase.time_series);
  std::string line;
  std::getline(file, line);
  uint64_t arrivals = 0, completions = 0;
  double stalled_ms = 0, max_us = 0;
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    ASSERT_GE(fields.size(), 12u) << line;
    EXPECT_EQ(fields[0], "running");
    arrivals += std::stoull(fields[2]);
    completions += std::stoull(fields[3]);
    max_us = std::max(max_us, std::stod(fields[7]));
    stalled_ms += std::stod(fields[8]);
    EXPECT_EQ(fields[9], "4") << "every second has a sample: " << line;
  }
  EXPECT_EQ(arrivals, 2250u);
  EXPECT_EQ(completions, 2250u);
  EXPECT_DOUBLE_EQ(stalled_ms, Known(result, "running_stall_ms_test"));
  EXPECT_NEAR(max_us, Known(result, "write_max_us"), 0.001);
}

// Fails if the running phase does not take its rate from the testing phase.
TEST_F(TwoPhaseTest, ArrivalsAreAShareOfTheMeasuredThroughput) {
  options_.two_phase.utilization = 0.25;
  const BenchResult result = Run();
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  const double most = Known(result, "max_throughput");
  EXPECT_GT(most, 0);
  EXPECT_DOUBLE_EQ(Known(result, "arrival_rate"), 0.25 * most);
  EXPECT_NEAR(Known(result, "arrivals"), 0.25 * most * 0.1, 1.5);
  EXPECT_THAT(result.text, HasSubstr("closed loop"));
}

// Fails if a testing phase that measured nothing leads to an arrival rate all the same.
TEST_F(TwoPhaseTest, ATestingPhaseWithoutAWriteIsAnError) {
  options_.two_phase.warmup_seconds = 0;
  engine_.StallAt(1, std::chrono::milliseconds(200));
  const BenchResult result = Run();
  EXPECT_TRUE(result.status.IsAborted()) << result.status.ToString();
  EXPECT_THAT(result.status.ToString(), HasSubstr("--testing_seconds"));
}

// Fails if a kind of read is not run, or threads of one kind are not added up.
TEST_F(TwoPhaseTest, ReadsRunBesideTheWrites) {
  options_.two_phase.arrival_rate = 5000;
  options_.two_phase.short_scan_entries = 10;
  options_.two_phase.reads = {ReadKind::kLookup, ReadKind::kLookup, ReadKind::kShortScan};
  // A put waits until each kind has completed a read: with one more than threads, one is complete.
  engine_.quirks.loses = [this](const Slice& /*key*/) {
    while (engine_.reads.gets < 3 || engine_.reads.cursors < 2) std::this_thread::yield();
    return false;
  };
  const BenchResult result = Run();
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_GT(Known(result, "lookup_count"), 0);
  EXPECT_EQ(Known(result, "lookup_count"), static_cast<double>(result.found + result.misses));
  EXPECT_GT(Known(result, "short_scan_count"), 0);
  EXPECT_LE(Known(result, "short_scan_entries"), 10 * Known(result, "short_scan_count"));
  for (const NamedFigure& figure : result.figures) {
    EXPECT_EQ(figure.name.find("long_scan"), std::string::npos) << "nobody asked";
  }
}

// Fails if bursts do not reach the store.
TEST_F(TwoPhaseTest, BurstyArrivalsKeepTheirMean) {
  options_.two_phase.arrival_rate = 10'000;
  options_.two_phase.running_seconds = 0.2;
  options_.two_phase.arrivals.pattern = ArrivalPattern::kBursty;
  options_.two_phase.arrivals.burst_period_seconds = 0.1;
  options_.two_phase.arrivals.burst_seconds = 0.02;
  const BenchResult result = Run();
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(Known(result, "arrivals"), 2000);
  EXPECT_THAT(result.text, HasSubstr("4 times"));
}

}  // namespace
}  // namespace dlsm::bench
