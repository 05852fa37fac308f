#include "benchmarks/time_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "benchmarks/time_units_testing.h"
#include "util/random.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;

// Fails if what one recorder adds late, when others are seconds ahead, is lost or counted twice.
TEST(TimeSeriesTest, SumsOfTheRowsAreTheTotals) {
  constexpr size_t kRecorders = 3;
  constexpr uint64_t kWrites = 20'000;
  TimeSeries series(kRecorders);
  Random random(7);
  uint64_t arrival[kRecorders] = {};
  uint64_t added = 0, undone = 0, max_latency = 0;
  for (uint64_t i = 0; i < kWrites; ++i) {
    const size_t r = random.Uniform(10) < 8 ? 0 : 1 + random.Uniform(2);  // One runs ahead.
    arrival[r] += random.Uniform(2 * kMs);
    const uint64_t end = arrival[r] + random.Uniform(3 * kSecond);
    max_latency = std::max(max_latency, end - arrival[r]);
    if (random.Uniform(100) == 0) {
      series.recorder(r).AddUnfinished(arrival[r], end);
      ++undone;
    } else {
      series.recorder(r).Add(arrival[r], end);
    }
    ++added;
  }
  for (size_t r = 0; r < kRecorders; ++r) series.recorder(r).Finish();
  uint64_t stalled = 0;
  for (uint64_t second = 0; second < 5; ++second) {
    series.Sample(second, 100 * second, {});
    stalled += 100 * second;
  }

  uint64_t arrivals = 0, completions = 0;
  double max_us = 0, stalled_ms = 0;
  const std::vector<SecondRow> rows = series.Rows();
  EXPECT_GT(rows.size(), 10u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].second, i);
    arrivals += rows[i].arrivals;
    completions += rows[i].completions;
    stalled_ms += rows[i].stalled_ms;
    max_us = std::max(max_us, rows[i].max_us);
    EXPECT_LE(rows[i].p50_us, rows[i].p99_us);
    EXPECT_LE(rows[i].p999_us, rows[i].max_us * 1.01);
  }
  EXPECT_EQ(arrivals, added);
  EXPECT_EQ(completions, added - undone);
  EXPECT_DOUBLE_EQ(stalled_ms, static_cast<double>(stalled) * 1e-3);
  EXPECT_DOUBLE_EQ(max_us, static_cast<double>(max_latency) * 1e-3);
}

// Fails if a write is put into the second of its completion with its latency, or into that of its
// arrival with its completion.
TEST(TimeSeriesTest, ArrivalAndCompletionHaveTheirOwnSeconds) {
  TimeSeries series(2);
  series.recorder(0).Add(500 * kMs, 2 * kSecond + 500 * kMs);
  series.recorder(1).Add(999 * kMs, 1 * kSecond);
  series.recorder(0).Finish();
  series.recorder(1).Finish();
  const std::vector<SecondRow> rows = series.Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].arrivals, 2u);
  EXPECT_EQ(rows[0].completions, 0u);
  EXPECT_DOUBLE_EQ(rows[0].max_us, 2e6);
  EXPECT_EQ(rows[1].completions, 1u);
  EXPECT_EQ(rows[2].completions, 1u);
  EXPECT_EQ(rows[2].arrivals, 0u);
}

// Fails if a thread that had nothing to do keeps the others' seconds from becoming rows.
TEST(TimeSeriesTest, AnIdleRecorderHoldsNothingUp) {
  TimeSeries series(2);
  series.recorder(1).Finish();
  series.recorder(0).Add(0, 1);
  series.recorder(0).Finish();
  EXPECT_EQ(series.Rows().size(), 1u);
  EXPECT_TRUE(TimeSeries(1).Rows().empty());
}

// script/plot reads this. Fails if a column is missing, or what is unknown is written as a figure.
TEST(TimeSeriesFileTest, WritesTheColumnsThatThePlotReads) {
  const std::string path = testing::TempDir() + "time_series_test.csv";
  const TimeSeriesFile file(path);
  ASSERT_TRUE(file.Create().ok());
  SecondRow known;
  known.second = 3;
  known.arrivals = 10;
  known.completions = 9;
  known.p50_us = 1.5;
  known.stalled_ms = 2.25;
  known.tree = {4, 30, 2, 1000};
  ASSERT_TRUE(file.Append("testing", {SecondRow()}).ok());
  ASSERT_TRUE(file.Append("running", {known}).ok());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(),
            "phase,second,arrivals,completions,p50_us,p99_us,p999_us,max_us,stalled_ms,components,"
            "tables,level0_tables,pending_bytes\n"
            "testing,0,0,0,0.000,0.000,0.000,0.000,0.000,,,,\n"
            "running,3,10,9,1.500,0.000,0.000,0.000,2.250,4,30,2,1000\n");
}

TEST(TimeSeriesFileTest, UnwritableFileIsAnError) {
  const Status status = TimeSeriesFile("/nonexistent/series.csv").Create();
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("/nonexistent/series.csv"));
  EXPECT_TRUE(TimeSeriesFile("").Create().ok()) << "none is wanted";
}

}  // namespace
}  // namespace dlsm::bench
