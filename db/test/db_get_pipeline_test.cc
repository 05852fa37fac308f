// Gets that overlap: the answers of single gets, in order, whatever comes between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "db/test/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr int kPipelineKeys = 4000;
constexpr char kPipelineName[] = "pipelined";

std::string PipelineKey(uint64_t i) {
  std::string digits = std::to_string(i);
  return "key" + std::string(8 - digits.size(), '0') + digits;
}

struct PipelineShape {
  const char* fabric;  // "": the embedded memory node.
  uint64_t rtt_ns = 0;
  int shards = 1;
};

std::string PipelineShapeName(const PipelineShape& shape) {
  return std::string(shape.fabric[0] == '\0' ? "embedded" : shape.fabric) +
         (shape.shards > 1 ? "Shards" : "") + (shape.rtt_ns > 0 ? "Simulated" : "");
}
void PrintTo(const PipelineShape& shape, std::ostream* out) { *out << PipelineShapeName(shape); }

class GetPipelineTest : public testing::TestWithParam<PipelineShape> {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.shards = GetParam().shards;
    if (options_.shards > 1) options_.shard_boundaries = {PipelineKey(kPipelineKeys / 3)};
    options_.simulated_rtt_ns = GetParam().rtt_ns;
    if (GetParam().fabric[0] != '\0') {
      node_ = std::make_unique<TestNode>(GetParam().fabric);
      options_ = node_->With(options_, GetParam().fabric);
    }
    db_ = OpenOrDie(options_, kPipelineName);
  }
  void TearDown() override {
    db_ = nullptr;
    EXPECT_OK(DestroyDB(kPipelineName, options_));
  }

  void Put(uint64_t i, const std::string& value) {
    ASSERT_OK(db_->Put(WriteOptions(), PipelineKey(i), value));
    model_[PipelineKey(i)] = value;
  }
  void Delete(uint64_t i) {
    ASSERT_OK(db_->Delete(WriteOptions(), PipelineKey(i)));
    model_.erase(PipelineKey(i));
  }
  // Every second key, most of them in tables, some overwritten, some deleted again.
  void Fill() {
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kPipelineKeys; i += 2) {
        if (round == 0 || random_.OneIn(3)) {
          Put(i, std::string(random_.Uniform(400), static_cast<char>('a' + round)));
        }
        if (random_.OneIn(20)) Delete(i);
      }
      if (round < 2) {
        ASSERT_OK(db_->Flush(FlushOptions()));
      }
    }
  }

  void ExpectAnswer(const GetPipeline::Answer& answer, uint64_t tag) {
    ASSERT_EQ(answer.tag, tag);
    const auto found = model_.find(PipelineKey(tag));
    if (found == model_.end()) {
      EXPECT_TRUE(answer.status.IsNotFound()) << tag << ": " << answer.status.ToString();
      EXPECT_EQ(answer.value, "");
    } else {
      ASSERT_OK(answer.status);
      EXPECT_EQ(answer.value, found->second) << tag;
    }
  }

  Options options_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
  std::map<std::string, std::string> model_;
  Random random_{301};
};

// Fails if answers come in another order, or are another key's, or differ from the model.
TEST_P(GetPipelineTest, AnswersInOrder) {
  Fill();
  for (const size_t depth : {1, 2, 7, 64}) {
    const auto pipeline = db_->NewGetPipeline(ReadOptions(), depth);
    EXPECT_EQ(pipeline->depth(), depth);
    std::vector<uint64_t> submitted;
    size_t answered = 0;
    GetPipeline::Answer answer;
    while (answered < 2000) {
      while (submitted.size() < 2000 && pipeline->outstanding() < depth && !random_.OneIn(5)) {
        submitted.push_back(random_.Uniform(kPipelineKeys));
        ASSERT_OK(pipeline->Submit(PipelineKey(submitted.back()), submitted.back()));
      }
      if (!pipeline->Next(&answer)) continue;
      ExpectAnswer(answer, submitted[answered++]);
    }
    EXPECT_EQ(pipeline->outstanding(), 0u);
    EXPECT_FALSE(pipeline->Next(&answer));
  }
}

// Fails if a get sees what was written after it was submitted, or not what was written before.
TEST_P(GetPipelineTest, SeesTheMomentOfSubmission) {
  Fill();
  const auto pipeline = db_->NewGetPipeline(ReadOptions(), 8);
  GetPipeline::Answer answer;
  for (int round = 0; round < 200; ++round) {
    const uint64_t i = random_.Uniform(kPipelineKeys);
    Put(i, "before " + std::to_string(round));
    if (round % 50 == 0) {
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
    ASSERT_OK(pipeline->Submit(PipelineKey(i), i));
    ASSERT_OK(db_->Put(WriteOptions(), PipelineKey(i), "after"));
    if (round % 70 == 0) {
      ASSERT_OK(db_->Flush(FlushOptions()));
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    }
    ASSERT_TRUE(pipeline->Next(&answer));
    ExpectAnswer(answer, i);
    model_[PipelineKey(i)] = "after";
  }
}

TEST_P(GetPipelineTest, ReadsASnapshot) {
  Fill();
  const Snapshot* const snapshot = db_->GetSnapshot();
  for (uint64_t i = 0; i < kPipelineKeys; ++i) {
    ASSERT_OK(db_->Put(WriteOptions(), PipelineKey(i), "later"));
  }
  ASSERT_OK(db_->Flush(FlushOptions()));
  ReadOptions at_snapshot;
  at_snapshot.snapshot = snapshot;
  {
    const auto pipeline = db_->NewGetPipeline(at_snapshot, 16);
    GetPipeline::Answer answer;
    for (uint64_t i = 0; i < kPipelineKeys + 16; ++i) {
      if (i >= 16) {
        ASSERT_TRUE(pipeline->Next(&answer));
        ExpectAnswer(answer, i - 16);
      }
      if (i < kPipelineKeys) {
        ASSERT_OK(pipeline->Submit(PipelineKey(i), i));
      }
    }
  }
  db_->ReleaseSnapshot(snapshot);
}

TEST_P(GetPipelineTest, RefusesMoreThanItsDepth) {
  Fill();
  EXPECT_EQ(db_->NewGetPipeline(ReadOptions(), 0)->depth(), 1u);
  EXPECT_EQ(db_->NewGetPipeline(ReadOptions(), SIZE_MAX)->depth(), kGetPipelineDepthMax);
  const auto pipeline = db_->NewGetPipeline(ReadOptions(), 2);
  ASSERT_OK(pipeline->Submit(PipelineKey(0), 0));
  ASSERT_OK(pipeline->Submit(PipelineKey(1), 1));
  const Status third = pipeline->Submit(PipelineKey(2), 2);
  EXPECT_TRUE(third.IsBusy()) << third.ToString();
  EXPECT_THAT(third.ToString(), HasSubstr("Next()"));
  GetPipeline::Answer answer;
  ASSERT_TRUE(pipeline->Next(&answer));
  ExpectAnswer(answer, 0);
  EXPECT_OK(pipeline->Submit(PipelineKey(2), 2));
}

// Fails, with AddressSanitizer, if reads land in buffers of a pipeline that is gone.
TEST_P(GetPipelineTest, GoesAwayWithGetsOutstanding) {
  Fill();
  for (int round = 0; round < 30; ++round) {
    const auto pipeline = db_->NewGetPipeline(ReadOptions(), 32);
    for (int i = 0; i < 32; ++i) {
      const uint64_t key = random_.Uniform(kPipelineKeys);
      ASSERT_OK(pipeline->Submit(PipelineKey(key), key));
    }
    GetPipeline::Answer answer;
    for (int i = 0; i < round % 3; ++i) ASSERT_TRUE(pipeline->Next(&answer));
  }
  std::string value;
  for (const auto& [key, expected] : model_) {
    ASSERT_OK(db_->Get(ReadOptions(), key, &value));
    ASSERT_EQ(value, expected);
  }
}

// Fails if what one thread has posted is waited for on another thread's queue pair.
TEST_P(GetPipelineTest, GoesFromThreadToThread) {
  Fill();
  const auto pipeline = db_->NewGetPipeline(ReadOptions(), 32);
  std::vector<uint64_t> submitted;
  size_t answered = 0;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      GetPipeline::Answer answer;
      for (int i = 0; i < 20; ++i) {
        if (answered + 30 < submitted.size()) {
          ASSERT_TRUE(pipeline->Next(&answer));
          ExpectAnswer(answer, submitted[answered++]);
        }
        submitted.push_back(random_.Uniform(kPipelineKeys));
        ASSERT_OK(pipeline->Submit(PipelineKey(submitted.back()), submitted.back()));
      }
    }).join();
  }
  GetPipeline::Answer answer;
  while (pipeline->Next(&answer)) ExpectAnswer(answer, submitted[answered++]);
  EXPECT_EQ(answered, submitted.size());
}

// Fails if a pipeline reads tables that flushes and merges have replaced after they were freed, or
// an older version than the one that was there when it asked.
TEST_P(GetPipelineTest, BesideWriters) {
  constexpr uint64_t kHot = 200;
  std::vector<std::atomic<uint64_t>> acknowledged(kHot);
  for (uint64_t i = 0; i < kHot; ++i) {
    ASSERT_OK(db_->Put(WriteOptions(), PipelineKey(i), "0" + std::string(300, ' ')));
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> written{0};  // Some ninety memtables full.
  std::thread writer([&] {
    Random random(7);
    for (uint64_t version = 1; !stop; ++version) {
      const uint64_t i = random.Uniform(kHot);
      ASSERT_OK(db_->Put(WriteOptions(), PipelineKey(i),
                         std::to_string(version) + std::string(300, ' ')));
      acknowledged[i].store(version);
      ++written;
    }
  });
  const auto pipeline = db_->NewGetPipeline(ReadOptions(), 16);
  std::vector<std::pair<uint64_t, uint64_t>> floors;  // Key, the least version to be seen.
  GetPipeline::Answer answer;
  for (size_t answered = 0; answered < 20000 || written < 20000; ++answered) {
    while (pipeline->outstanding() < pipeline->depth()) {
      const uint64_t i = random_.Uniform(kHot);
      floors.emplace_back(i, acknowledged[i].load());
      ASSERT_OK(pipeline->Submit(PipelineKey(i), floors.size() - 1));
    }
    ASSERT_TRUE(pipeline->Next(&answer));
    ASSERT_EQ(answer.tag, answered);
    ASSERT_OK(answer.status);
    ASSERT_GE(std::stoull(answer.value), floors[answered].second);
  }
  stop = true;
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Shapes, GetPipelineTest,
                         testing::Values(PipelineShape{""}, PipelineShape{"shm"},
                                         PipelineShape{"tcp"}, PipelineShape{"tcp", 0, 2},
                                         PipelineShape{"", 20000}),
                         [](const auto& shape) { return PipelineShapeName(shape.param); });

// Fails if who has many gets outstanding waits for each of them in turn, or has one answered.
TEST(GetPipelineFaultTest, ADeadMemoryNodeFailsAllThatIsOutstanding) {
  TestNode node("tcp");
  Options options = node.With(TinyOptions(), "tcp");
  options.operation_timeout_ms = 2000;
  const auto db = OpenOrDie(options, kPipelineName);
  for (uint64_t i = 0; i < kPipelineKeys; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), PipelineKey(i), std::string(100, 'v')));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  const auto pipeline = db->NewGetPipeline(ReadOptions(), 64);
  GetPipeline::Answer answer;
  ASSERT_OK(pipeline->Submit(PipelineKey(1), 1));
  ASSERT_TRUE(pipeline->Next(&answer));
  ASSERT_OK(answer.status);
  node.Kill();
  for (uint64_t i = 0; i < 64; ++i) {
    const Status submitted = pipeline->Submit(PipelineKey(i), i);
    ASSERT_OK(submitted);
  }
  const auto started = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(pipeline->Next(&answer));
    EXPECT_EQ(answer.tag, i);
    EXPECT_TRUE(answer.status.IsIOError() || answer.status.IsTimedOut())
        << answer.status.ToString();
    EXPECT_EQ(answer.value, "");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
  EXPECT_FALSE(db->Close().ok());
  EXPECT_FALSE(pipeline->Submit(PipelineKey(1), 1).ok());
}

// Fails, with AddressSanitizer, if a pipeline goes on with shards that a closed handle has let go.
TEST(GetPipelineFaultTest, AClosedHandleAnswersWithAnError) {
  TestNode node("tcp");
  const auto db = OpenOrDie(node.With(TinyOptions(), "tcp"), kPipelineName);
  for (uint64_t i = 0; i < kPipelineKeys; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), PipelineKey(i), std::string(100, 'v')));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  const auto pipeline = db->NewGetPipeline(ReadOptions(), 8);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_OK(pipeline->Submit(PipelineKey(i), i));
  EXPECT_OK(db->Close());
  GetPipeline::Answer answer;
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(pipeline->Next(&answer));
    EXPECT_FALSE(answer.status.ok());
    EXPECT_FALSE(answer.status.IsNotFound());
  }
}

// Fails if a thread that submits, and leaves the answers to another one, holds more and more.
TEST(GetPipelineFaultTest, ManyThatNobodyWaitsFor) {
  TestNode node("tcp");
  const auto db = OpenOrDie(node.With(TinyOptions(), "tcp"), kPipelineName);
  for (uint64_t i = 0; i < kPipelineKeys; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), PipelineKey(i), std::to_string(i)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  for (int round = 0; round < 40; ++round) {
    const auto pipeline = db->NewGetPipeline(ReadOptions(), 1024);
    for (uint64_t i = 0; i < 1024; ++i) ASSERT_OK(pipeline->Submit(PipelineKey(i), i));
  }
  const auto pipeline = db->NewGetPipeline(ReadOptions(), 1);
  GetPipeline::Answer answer;
  ASSERT_OK(pipeline->Submit(PipelineKey(7), 7));
  ASSERT_TRUE(pipeline->Next(&answer));
  ASSERT_OK(answer.status);
  EXPECT_EQ(answer.value, "7");
}

// There is no memory from the first, the second, ... value on. Fails if a get is lost, or another
// one's or a wrong answer comes, or if the pipeline does not go on afterwards.
TEST(GetPipelineFaultTest, WithoutMemoryForItsValueAGetFailsAndNothingElse) {
  TestNode node("tcp");
  Options options = TinyOptions();
  // Tables that overlap, without filters: a get has many of them before it. Some records are
  // cached.
  options.compaction_style = CompactionStyle::kLeveled;
  options.level0_file_num_compaction_trigger = 100;
  options.level0_stop_writes_trigger = 200;
  options.filter_policy = Options::kNoFilter;
  options.value_cache_size = 64 << 10;
  const auto db = OpenOrDie(node.With(options, "tcp"), kPipelineName);
  for (uint64_t i = 0; i < kPipelineKeys; ++i) {
    const uint64_t key = i * 7919 % kPipelineKeys;
    ASSERT_OK(db->Put(WriteOptions(), PipelineKey(key), std::to_string(key)));
    if (i % 400 == 0) {
      ASSERT_OK(db->Flush(FlushOptions()));
    }
  }
  constexpr uint64_t kGets = 60;
  Random random(301);
  uint64_t failed = 0;
  uint64_t found = 0;
  for (uint64_t n = 1; n <= 200; ++n) {
    SCOPED_TRACE(testing::Message() << "value " << n % kGets);
    const auto pipeline = db->NewGetPipeline(ReadOptions(), 1 + random.Uniform(40));
    std::vector<uint64_t> submitted;
    std::vector<GetPipeline::Answer> answers;
    answers.reserve(2 * kGets);
    const auto get_all = [&] {
      for (uint64_t i = 0; i < kGets; ++i) {
        const uint64_t key = random.Uniform(kPipelineKeys);
        const Status status = pipeline->Submit(PipelineKey(key), key);
        ASSERT_OK(status);
        submitted.push_back(key);
        if (pipeline->outstanding() == pipeline->depth()) {
          ASSERT_TRUE(pipeline->Next(&answers.emplace_back()));
        }
      }
    };
    {
      const port::FailingAllocationsAt failing("value", /*made=*/n % kGets);
      get_all();
    }
    const size_t submitted_without = submitted.size();
    get_all();
    while (pipeline->outstanding() > 0) ASSERT_TRUE(pipeline->Next(&answers.emplace_back()));
    ASSERT_EQ(answers.size(), submitted.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_EQ(answers[i].tag, submitted[i]);
      if (answers[i].status.ok()) {
        ASSERT_EQ(answers[i].value, std::to_string(submitted[i]));
        ++found;
      } else {
        ASSERT_TRUE(answers[i].status.IsIOError()) << answers[i].status.ToString();
        ASSERT_LT(i, submitted_without) << answers[i].status.ToString();
        ++failed;
      }
    }
  }
  EXPECT_GT(failed, 0u);
  EXPECT_GT(found, 200 * kGets);
}

// Fails if each slot keeps the memory of the largest record that has ever been in it.
TEST(GetPipelineBudgetTest, GivesBackWhatLargeValuesNeeded) {
  TestNode node("tcp");
  Options options = node.With(TinyOptions(), "tcp");
  options.memory_budget = uint64_t{1} << 30;
  const auto db = OpenOrDie(options, kPipelineName);
  constexpr size_t kDepth = 16;
  for (uint64_t i = 0; i < kDepth; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), PipelineKey(i), std::string(size_t{1} << 20, 'v')));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  const auto pipeline = db->NewGetPipeline(ReadOptions(), kDepth);
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_OK(pipeline->Submit(PipelineKey(i), i));
  GetPipeline::Answer answer;
  uint64_t most = 0;
  while (pipeline->Next(&answer)) {
    ASSERT_OK(answer.status);
    most = std::max(most, FieldOfProperty(db.get(), "dlsm.memory", "buffers"));
  }
  EXPECT_GT(most, uint64_t{4} << 20);
  EXPECT_LT(FieldOfProperty(db.get(), "dlsm.memory", "buffers"), uint64_t{1} << 20);
}

// A follower's pipeline reads what was published when it asks.
TEST(GetPipelineFollowerTest, ReadsPublications) {
  TestNode node("tcp");
  Options options = node.With(TinyOptions(), "tcp");
  options.publish_interval_ms = 5;
  const auto owner = OpenOrDie(options, "followed");
  for (uint64_t i = 0; i < kPipelineKeys; ++i) {
    ASSERT_OK(owner->Put(WriteOptions(), PipelineKey(i), "first " + std::to_string(i)));
  }
  ASSERT_OK(owner->Close());
  Options following = node.With(TinyOptions(), "tcp");
  following.follow_interval_ms = 0;
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(following, "followed", &follower));
  const auto pipeline = follower->NewGetPipeline(ReadOptions(), 32);
  GetPipeline::Answer answer;
  for (uint64_t i = 0; i < kPipelineKeys + 32; ++i) {
    if (i >= 32) {
      ASSERT_TRUE(pipeline->Next(&answer));
      ASSERT_OK(answer.status);
      ASSERT_EQ(answer.value, "first " + std::to_string(i - 32));
    }
    if (i < kPipelineKeys) {
      ASSERT_OK(pipeline->Submit(PipelineKey(i), i));
    }
  }
}

}  // namespace
}  // namespace dlsm
