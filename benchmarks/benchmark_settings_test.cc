#include "benchmarks/benchmark_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "benchmarks/bench_runner.h"
#include "benchmarks/map_engine_testing.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;

// Fails if a setting goes to another field than its flag, or a benchmark without settings is not
// run as the flags say.
TEST(BenchmarkSettingsTest, SettingsTakeThePlaceOfFlags) {
  BenchOptions defaults;
  defaults.threads = 7;
  defaults.num = 12345;
  Benchmark benchmark;
  ASSERT_TRUE(ParseBenchmark("readrandom", defaults, &benchmark).ok());
  EXPECT_EQ(benchmark.name, "readrandom");
  EXPECT_EQ(benchmark.workload, FindWorkload("readrandom"));
  EXPECT_EQ(benchmark.options.threads, 7u);

  const std::string text =
      "readrandom:threads=50:reads=20:writes=30:batch_size=40:readwritepercent=0:seek_nexts=60:"
      "index_records=70";
  ASSERT_TRUE(ParseBenchmark(text, defaults, &benchmark).ok());
  EXPECT_EQ(benchmark.name, text);
  EXPECT_EQ(benchmark.workload, FindWorkload("readrandom"));
  EXPECT_EQ(benchmark.options.threads, 50u);
  EXPECT_EQ(benchmark.options.reads, 20u);
  EXPECT_EQ(benchmark.options.writes, 30u);
  EXPECT_EQ(benchmark.options.batch_size, 40u);
  EXPECT_EQ(benchmark.options.read_percent, 0u);
  EXPECT_EQ(benchmark.options.seek_nexts, 60u);
  EXPECT_EQ(benchmark.options.index_records, 70u);
  EXPECT_EQ(benchmark.options.num, 12345u);
}

// Fails if a mistake is taken, or told without what is allowed, or changes the output.
TEST(BenchmarkSettingsTest, MistakesAreNamed) {
  const struct {
    const char* text;
    const char* message;
  } kMistakes[] = {
      {"nonsense", "readrandom"},
      {"", "readrandom"},
      {"readrandom:", "threads="},
      {"readrandom:num=5", "threads="},
      {"readrandom:threads", "threads=1 to 1024"},
      {"readrandom:threads=", "threads=1 to 1024"},
      {"readrandom:threads=0", "threads=1 to 1024"},
      {"readrandom:threads=1025", "threads=1 to 1024"},
      {"readrandom:threads=-1", "threads=1 to 1024"},
      {"readrandom:threads=2x", "threads=1 to 1024"},
      {"readrandom:threads=99999999999999999999", "threads=1 to 1024"},
      {"readrandom:readwritepercent=101", "readwritepercent=0 to 100"},
  };
  for (const auto& mistake : kMistakes) {
    Benchmark benchmark;
    benchmark.name = "untouched";
    const Status status = ParseBenchmark(mistake.text, BenchOptions(), &benchmark);
    EXPECT_TRUE(status.IsInvalidArgument()) << mistake.text;
    EXPECT_THAT(status.ToString(), HasSubstr(mistake.message)) << mistake.text;
    EXPECT_EQ(benchmark.name, "untouched") << mistake.text;
  }
}

// Fails if a run takes the threads, operations or shares of the runner's options instead of its
// own, or verify replays what they would have written; or if a later process told of it does.
TEST(BenchmarkSettingsTest, RunsAndHistoryKeepThem) {
  BenchOptions options;
  options.num = 300;
  options.threads = 3;
  options.value_bytes = 50;
  options.progress = false;
  options.history = {"fillseq", "overwrite:threads=5:writes=40",
                     "readrandomwriterandom:threads=1:reads=200:readwritepercent=20"};
  MapEngine engine;
  BenchRunner runner(options, "map", engine);
  ASSERT_TRUE(runner.Open().ok());
  const auto run = [&](const std::string& text) {
    Benchmark benchmark;
    EXPECT_TRUE(ParseBenchmark(text, options, &benchmark).ok());
    BenchResult result = runner.Run(benchmark);
    EXPECT_TRUE(result.status.ok()) << text << ": " << result.status.ToString();
    EXPECT_EQ(result.name, text);
    return result;
  };
  std::vector<BenchResult> results;
  for (const std::string& text : options.history) results.push_back(run(text));
  EXPECT_EQ(results[1].ops, 200u);
  EXPECT_EQ(results[1].threads, 5u);
  EXPECT_EQ(results[2].ops, 200u);
  EXPECT_EQ(results[2].threads, 1u);
  const uint64_t reads = results[2].found + results[2].misses;
  EXPECT_GT(reads, 10u);
  EXPECT_LT(reads, 90u) << "a fifth of 200";
  EXPECT_EQ(run("multireadrandom:batch_size=10:reads=30:threads=2").latencies.count, 6u);
  run("verify:threads=2");

  options.use_existing_db = true;
  BenchRunner later(options, "map", engine);
  ASSERT_TRUE(later.Open().ok());
  const BenchResult verified = later.Run(*FindWorkload("verify"));
  EXPECT_TRUE(verified.status.ok()) << verified.status.ToString();
  options.history.back() = "readrandomwriterandom:threads=1:reads=200:readwritepercent=30";
  BenchRunner misled(options, "map", engine);
  ASSERT_TRUE(misled.Open().ok());
  EXPECT_TRUE(misled.Run(*FindWorkload("verify")).status.IsCorruption());
}

}  // namespace
}  // namespace dlsm::bench
