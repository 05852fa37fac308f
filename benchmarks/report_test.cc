#include "benchmarks/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlsm::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

BenchResult SampleResult() {
  BenchResult result;
  result.name = "fillrandom";
  result.engine = "dlsm";
  result.threads = 2;
  result.ops = 1000;
  result.seconds = 0.5;
  result.seconds_to_quiet = 1.0;
  result.wire = {{"read", 100, 100, 100, 42'000, 0}, {"flush", 10, 20, 10, 0, 800'000}};
  result.user_bytes_written = 420'000;
  result.storage_bytes_written = 840'000;
  return result;
}

// Fails if a figure is divided by the wrong thing.
TEST(BenchResultTest, FiguresForEachOperation) {
  const BenchResult result = SampleResult();
  EXPECT_DOUBLE_EQ(result.OpsPerSecond(), 2000);
  EXPECT_DOUBLE_EQ(result.MicrosPerOp(), 1000) << "of one of two threads";
  EXPECT_DOUBLE_EQ(result.WriteAmplification(), 2);
  EXPECT_EQ(result.WireSum().round_trips, 110u);
  EXPECT_EQ(BenchResult().OpsPerSecond(), 0);
  EXPECT_EQ(BenchResult().MicrosPerOp(), 0);
  EXPECT_EQ(BenchResult().WriteAmplification(), 0);
}

TEST(ReportTest, JsonHasTheFigures) {
  const std::string json = ToJson({SampleResult()});
  EXPECT_THAT(json, HasSubstr("\"name\": \"fillrandom\""));
  EXPECT_THAT(json, HasSubstr("\"ops\": 1000"));
  EXPECT_THAT(json, HasSubstr("\"round_trips_per_op\": 0.11"));
  EXPECT_THAT(json, HasSubstr("\"wire_read_bytes_per_op\": 42"));
  EXPECT_THAT(json, HasSubstr("\"wire_write_bytes_per_op\": 800"));
  EXPECT_THAT(json, HasSubstr("\"index_bytes_per_key\": null"));
  EXPECT_THAT(json, HasSubstr("\"flush\": {\"round_trips\": 10, \"work_requests\": 20, "
                              "\"doorbells\": 10, \"read_bytes\": 0, \"write_bytes\": 800000}"));
  EXPECT_THAT(json, HasSubstr("\"seconds_to_quiet\": 1"));
  EXPECT_EQ(ToJson({}), "[\n]\n");
}

// Fails if a count is rounded to six digits, or what is unknown becomes a figure.
TEST(ReportTest, JsonHasTheNamedFigures) {
  BenchResult result = SampleResult();
  result.figures = {{"arrivals", 1'234'567'890}, {"rate", 0.5}, {"pending_bytes", std::nullopt}};
  EXPECT_THAT(ToJson({result}),
              HasSubstr("\"arrivals\": 1234567890, \"rate\": 0.5, \"pending_bytes\": null}"));
}

// Fails if the processor time of memory nodes that do not tell it passes for none.
TEST(ReportTest, UnknownProcessorTimeIsNoFigure) {
  BenchResult result = SampleResult();
  result.own_cpu_seconds = 1.5;
  result.memory_node_cpu_seconds = 0.25;
  EXPECT_THAT(ToJson({result}), HasSubstr("\"cpu_seconds\": 1.75"));
  EXPECT_THAT(ToJson({result}), HasSubstr("\"memory_node_cpu_seconds\": 0.25"));
  EXPECT_THAT(TableRow(result), HasSubstr("1.750  quiet"));
  result.memory_node_cpu_seconds = std::nullopt;
  EXPECT_THAT(ToJson({result}), HasSubstr("\"cpu_seconds\": null"));
  EXPECT_THAT(ToJson({result}), HasSubstr("\"own_cpu_seconds\": 1.5"));
  EXPECT_THAT(ToJson({result}), HasSubstr("\"memory_node_cpu_seconds\": null"));
  EXPECT_THAT(TableRow(result), HasSubstr("-  quiet"));
}

// Fails if a cache that there is not has figures.
TEST(ReportTest, JsonHasTheValueCacheIfThereIsOne) {
  BenchResult result = SampleResult();
  EXPECT_THAT(ToJson({result}), Not(HasSubstr("value_cache")));
  result.value_cache = ValueCacheTotal{.hits = 30, .misses = 10, .inserts = 9, .evictions = 8};
  EXPECT_THAT(ToJson({result}), HasSubstr("\"value_cache\": {\"hits\": 30, \"misses\": 10, "
                                          "\"inserts\": 9, \"evictions\": 8}"));
  EXPECT_THAT(TableRow(result), HasSubstr("value cache 75.00%"));
}

TEST(ReportTest, JsonTextIsEscaped) {
  BenchResult result = SampleResult();
  result.engine = "a\"b\\c\n";
  EXPECT_THAT(ToJson({result}), HasSubstr("\"a\\\"b\\\\c\\u000a\""));
}

// Fails if a long name pushes the figures out of their columns.
TEST(ReportTest, FiguresStandUnderTheirHeadings) {
  BenchResult result = SampleResult();
  const std::string row = TableRow(result);
  result.name = "readrandom:threads=50:reads=20000";
  const std::string two_lines = TableRow(result);
  EXPECT_EQ(two_lines.substr(0, result.name.size() + 1), result.name + "\n");
  EXPECT_EQ(two_lines.substr(result.name.size() + 1).substr(22), row.substr(22));
}

TEST(ReportTest, UnwritableFileIsAnError) {
  const Status status = WriteJson("/nonexistent/result.json", {});
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("/nonexistent/result.json"));
}

}  // namespace
}  // namespace dlsm::bench
