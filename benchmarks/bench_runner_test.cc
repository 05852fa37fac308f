#include "benchmarks/bench_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/map_engine_testing.h"
#include "util/eventually_testing.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;

class BenchRunnerTest : public testing::Test {
 protected:
  BenchRunnerTest() {
    options_.num = 300;
    options_.threads = 3;
    options_.value_bytes = 50;
    options_.progress = false;
    options_.two_phase.warmup_seconds = 0.01;
    options_.two_phase.testing_seconds = 0.05;
    options_.two_phase.running_seconds = 0.05;
    options_.two_phase.reads = {ReadKind::kLookup, ReadKind::kShortScan, ReadKind::kLongScan};
  }

  BenchResult Run(BenchRunner& runner, const char* name) {
    BenchResult result = runner.Run(*FindWorkload(name));
    EXPECT_EQ(result.name, name);
    result.status.PermitUncheckedError();
    return result;
  }

  BenchOptions options_;
  MapEngine engine_;
};

// Fails if any write workload leaves something else than verify expects of it.
TEST_F(BenchRunnerTest, VerifyAgreesAfterEachWorkload) {
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  for (const Workload& workload : Workloads()) {
    SCOPED_TRACE(workload.name);
    if (std::string(workload.name) == "kill") continue;  // It would end this process.
    const BenchResult result = runner.Run(workload);
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    EXPECT_GT(result.ops, 0u);
    const BenchResult verified = Run(runner, "verify");
    EXPECT_TRUE(verified.status.ok()) << verified.status.ToString();
    EXPECT_EQ(verified.ops, options_.num);
    EXPECT_EQ(verified.found, engine_.map().Copy().size());
  }
}

// Fails if verify overlooks one lost put, one key too many or one wrong value.
TEST_F(BenchRunnerTest, VerifySeesEveryKindOfDamage) {
  KeyFormatter keys(options_.key_bytes);
  const std::string victim = keys.Format(77).ToString();
  const std::function<void()> damages[] = {
      [&] { engine_.map().Delete(victim); },
      [&] { engine_.map().Put(victim, "another value"); },
      [&] { engine_.map().Put(victim + "0", "a key that nobody wrote"); },
  };
  for (const auto& damage : damages) {
    BenchRunner runner(options_, "map", engine_);
    ASSERT_TRUE(runner.Open().ok());
    EXPECT_TRUE(Run(runner, "fillseq").status.ok());
    EXPECT_TRUE(Run(runner, "verify").status.ok());
    damage();
    const BenchResult verified = Run(runner, "verify");
    EXPECT_TRUE(verified.status.IsCorruption()) << verified.status.ToString();
    EXPECT_THAT(verified.status.ToString(), HasSubstr(victim));
  }
}

// Fails if verify overlooks a key too many where the parts of its threads meet, or before or behind
// all of them; or if it takes those around all for wrong where nobody knows what was written.
TEST_F(BenchRunnerTest, VerifySeesKeysTooManyAroundEachPart) {
  KeyFormatter keys(options_.key_bytes);
  std::vector<std::string> around = {"!"};  // Before all of them.
  for (const uint64_t last : {99u, 199u, 299u}) {
    around.push_back(keys.Format(last).ToString() + "0");
  }
  for (const std::string& key : around) {
    SCOPED_TRACE(key);
    BenchRunner runner(options_, "map", engine_);
    ASSERT_TRUE(runner.Open().ok());
    EXPECT_TRUE(Run(runner, "fillseq").status.ok());
    engine_.map().Put(key, "a key that nobody wrote");
    const BenchResult verified = Run(runner, "verify");
    EXPECT_TRUE(verified.status.IsCorruption()) << verified.status.ToString();
    EXPECT_THAT(verified.status.ToString(), HasSubstr("scan of key " + key + " "));
  }
  BenchRunner larger(options_, "map", engine_);
  ASSERT_TRUE(larger.Open().ok());
  EXPECT_TRUE(Run(larger, "fillseq").status.ok());
  options_.use_existing_db = true;
  options_.num = 200;
  BenchRunner unknown(options_, "map", engine_);
  ASSERT_TRUE(unknown.Open().ok());
  const BenchResult verified = Run(unknown, "verify");
  EXPECT_TRUE(verified.status.ok()) << verified.status.ToString();
}

// Fails if --reads, which is of the other workloads, makes verify get fewer keys than there are.
TEST_F(BenchRunnerTest, VerifyGetsEveryKeyWhateverReadsSays) {
  options_.reads = 10;
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_TRUE(Run(runner, "fillseq").status.ok());
  const BenchResult verified = Run(runner, "verify");
  EXPECT_TRUE(verified.status.ok()) << verified.status.ToString();
  EXPECT_EQ(verified.ops, options_.num);
  KeyFormatter keys(options_.key_bytes);
  const std::string victim = keys.Format(77).ToString();
  engine_.quirks.hides = [&](const Slice& key) { return key == victim; };
  const BenchResult damaged = Run(runner, "verify");
  EXPECT_TRUE(damaged.status.IsCorruption()) << damaged.status.ToString();
  EXPECT_THAT(damaged.status.ToString(), HasSubstr("get of key " + victim));
}

// Fails if verify takes the value of an earlier workload for that of the last.
TEST_F(BenchRunnerTest, VerifySeesAStaleValue) {
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_TRUE(Run(runner, "fillseq").status.ok());
  engine_.quirks.loses = [](const Slice& key) { return key[key.size() - 1] == '5'; };
  EXPECT_TRUE(Run(runner, "overwrite").status.ok());
  EXPECT_TRUE(Run(runner, "verify").status.IsCorruption());
}

// Fails if a fill does not start from nothing, or an existing database is not left alone.
TEST_F(BenchRunnerTest, FillsStartEmptyAndSpareWhatExists) {
  options_.benchmarks = {"fillseq", "fillrandom"};
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  Run(runner, "fillseq");
  EXPECT_EQ(engine_.map().Copy().size(), options_.num);
  options_.threads = 1;
  Run(runner, "fillrandom");
  EXPECT_LT(engine_.map().Copy().size(), options_.num);

  options_.use_existing_db = true;
  options_.history = {"fillseq"};
  BenchRunner second(options_, "map", engine_);
  ASSERT_TRUE(second.Open().ok());
  EXPECT_TRUE(second.Skips(*FindWorkload("fillseq")));
  EXPECT_FALSE(second.Skips(*FindWorkload("overwrite")));
  EXPECT_TRUE(Run(second, "verify").status.IsCorruption()) << "not what fillseq leaves";
  options_.history.clear();
  BenchRunner third(options_, "map", engine_);
  ASSERT_TRUE(third.Open().ok());
  EXPECT_TRUE(Run(third, "verify").status.ok()) << "unknown history: any version will do";
}

// Fails if the readers of another process draw the keys that the writers drew.
TEST_F(BenchRunnerTest, ReadersOfAnExistingDatabaseDrawTheirOwnKeys) {
  options_.num = 3000;
  options_.threads = 1;
  BenchRunner writer(options_, "map", engine_);
  ASSERT_TRUE(writer.Open().ok());
  EXPECT_TRUE(Run(writer, "fillrandom").status.ok());
  options_.use_existing_db = true;
  BenchRunner reader(options_, "map", engine_);
  ASSERT_TRUE(reader.Open().ok());
  const BenchResult result = Run(reader, "readrandom");
  EXPECT_EQ(result.ops, options_.num);
  EXPECT_GT(result.found, options_.num * 5 / 10);
  EXPECT_LT(result.found, options_.num * 7 / 10) << "63% of the keys are there";
}

// Fails if a duration does not end a workload, or numbers of operations do.
TEST_F(BenchRunnerTest, DurationTakesThePlaceOfNumbers) {
  options_.duration_seconds = 0.05;
  options_.reads = 1;
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  Run(runner, "fillrandom");
  const BenchResult result = Run(runner, "readrandom");
  EXPECT_GT(result.ops, 3u);
  EXPECT_GE(result.seconds, 0.045);
  EXPECT_LT(result.seconds, 5);
  EXPECT_TRUE(Run(runner, "verify").status.ok()) << "the steps taken in that time are known";
}

// Fails if a store that has failed is waited for: it may never be quiet.
TEST_F(BenchRunnerTest, AStoreThatHasFailedIsNotWaitedFor) {
  class NeverQuiet : public MapEngine {
   public:
    Status WaitForBackgroundWork() override {
      ADD_FAILURE() << "this would be for ever";
      return Status::OK();
    }
  };
  NeverQuiet engine;
  engine.quirks.refuses = [](const Slice& key) { return key[key.size() - 1] == '7'; };
  BenchRunner runner(options_, "map", engine);
  ASSERT_TRUE(runner.Open().ok());
  for (const char* name : {"fillrandom", "overwrite", "fillseq"}) {
    const BenchResult result = Run(runner, name);
    EXPECT_TRUE(result.status.IsIOError()) << name << ": " << result.status.ToString();
    EXPECT_THAT(result.status.ToString(), HasSubstr("refused by the test"));
  }
}

// Fails if the latency of a get in a pipeline is the time since the answer before.
TEST_F(BenchRunnerTest, AGetInAPipelineTakesUntilItsAnswer) {
  options_.threads = 1;
  options_.reads = 40;
  options_.batch_size = 8;
  engine_.quirks.pipeline_wait = std::chrono::milliseconds(1);
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_TRUE(Run(runner, "fillseq").status.ok());
  const BenchResult result = Run(runner, "pipelinedreadrandom");
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.ops, 40u);
  EXPECT_EQ(result.latencies.count, 40u);
  EXPECT_GE(result.latencies.p50_us, 6000) << "eight at a time, an answer each millisecond";
}

// Fails if a call for the whole database, or the wait for what a workload has left to be done, says
// nothing however long it takes; or if either does though nothing is to be said.
TEST_F(BenchRunnerTest, WhatTakesLongSaysThatItGoesOn) {
  class SlowEngine : public MapEngine {
   public:
    Status WaitForBackgroundWork() override {
      if (!waits_until_something_is_said) return Status::OK();
      const auto said = [] {
        struct stat file {};
        return fstat(STDERR_FILENO, &file) == 0 ? file.st_size : 0;
      };
      const auto before = said();
      EXPECT_TRUE(Eventually([&] { return said() > before; }));
      return Status::OK();
    }
    bool waits_until_something_is_said = true;
  };
  SlowEngine engine;
  options_.progress = true;
  BenchRunner runner(options_, "map", engine);
  ASSERT_TRUE(runner.Open().ok());
  testing::internal::CaptureStderr();  // To a file.
  EXPECT_TRUE(Run(runner, "fillseq").status.ok());
  EXPECT_TRUE(Run(runner, "waitforbackground").status.ok());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("fillseq until quiet: "));
  EXPECT_THAT(said, HasSubstr("waitforbackground: "));
  engine.waits_until_something_is_said = false;
  options_.progress = false;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Run(runner, "waitforbackground").status.ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Fails if it is not told how long an existing database takes to be opened, at the start and by
// "reopen", or if one that is new is said to have been opened.
TEST_F(BenchRunnerTest, OpeningIsMeasured) {
  MapEngine engine;
  BenchRunner runner(options_, "map", engine);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_EQ(runner.opening_seconds(), 0);
  EXPECT_TRUE(Run(runner, "fillseq").status.ok());
  const BenchResult reopened = Run(runner, "reopen");
  EXPECT_TRUE(reopened.status.ok());
  EXPECT_THAT(reopened.text, HasSubstr("opened, and an entry read, in "));
  EXPECT_TRUE(Run(runner, "verify").status.ok());
  options_.use_existing_db = true;
  BenchRunner again(options_, "map", engine);
  ASSERT_TRUE(again.Open().ok());
  EXPECT_GT(again.opening_seconds(), 0);
}

TEST_F(BenchRunnerTest, WholeWorkloadsPrintTheirText) {
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_THAT(Run(runner, "stats").text, HasSubstr("stats of a map"));
  EXPECT_EQ(FindWorkload("nonsense"), nullptr);
}

}  // namespace
}  // namespace dlsm::bench
