// ReadOptions::deadline and WriteOptions::deadline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "db/test/held_flushes_testing.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr char kDeadlineName[] = "deadlines";
constexpr uint64_t kDeadlineKeys = 300;
// Operation time-outs are a minute: what takes less has kept its deadline, with room for a machine
// that others load.
constexpr auto kFarTooLong = std::chrono::seconds(20);

ReadOptions Until(Clock::time_point deadline) {
  ReadOptions options;
  options.deadline = deadline;
  return options;
}
ReadOptions Soon() { return Until(Clock::now() + milliseconds(20)); }
ReadOptions Late() { return Until(Clock::now() - milliseconds(1)); }

class DeadlineTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.fault_injector = faults_;
    node_ = NodeServing(GetParam(), &options_);
    db_ = OpenOrDie(options_, kDeadlineName);
    for (uint64_t i = 0; i < kDeadlineKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 50)));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(db_->WaitForBackgroundWork());
    faults_->OnlyPurpose(Purpose::kRead);
    started_ = Clock::now();
  }
  void TearDown() override {
    faults_->Clear();
    EXPECT_LT(Clock::now() - started_, kFarTooLong);
    CloseAndDestroy(&db_, options_, kDeadlineName);
  }

  // From now on no read gets its answer.
  void LoseReads() { faults_->SetProbability(FaultKind::kDrop, 1); }
  Status GetBy(const ReadOptions& options, uint64_t key) {
    std::string value;
    return db_->Get(options, NumberedKey(key), &value);
  }
  // All kinds of reads of keys in tables.
  void ExpectTimedOut(ReadOptions (*options)()) {
    const Status got = GetBy(options(), 1);
    EXPECT_TRUE(got.IsTimedOut()) << got.ToString();
    const std::vector<std::string> names = {NumberedKey(1), NumberedKey(2), NumberedKey(3)};
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values;
    for (const Status& status : db_->MultiGet(options(), keys, &values)) {
      EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
    }
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(options()));
    for (int move = 0; move < 3; ++move) {
      if (move == 0) iterator->SeekToFirst();
      if (move == 1) iterator->Seek(NumberedKey(7));
      if (move == 2) iterator->SeekToLast();
      EXPECT_FALSE(iterator->Valid());
      EXPECT_TRUE(iterator->status().IsTimedOut()) << iterator->status().ToString();
    }
  }

  const std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  Options options_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
  Clock::time_point started_;
};

// Fails if a read that gets no answer waits for the operation's time-out, or if what it leaves
// behind spoils the next one. Under the address sanitizer also if an answer still comes to memory
// that was freed.
TEST_P(DeadlineTest, AReadUnderWayIsGivenUp) {
  LoseReads();
  ExpectTimedOut(&Soon);
  const ReadOptions options = Soon();
  const std::unique_ptr<GetPipeline> pipeline = db_->NewGetPipeline(options, 4);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_OK(pipeline->Submit(NumberedKey(i), i));
  GetPipeline::Answer answer;
  while (pipeline->Next(&answer)) {
    EXPECT_TRUE(answer.status.IsTimedOut()) << answer.status.ToString();
  }
  faults_->Clear();
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(1)), NumberedValue(1, 50));
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(2), Until(Clock::now() + kFarTooLong)),
            NumberedValue(2, 50));
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(3), Until(Clock::time_point::max())),
            NumberedValue(3, 50));
}

// Fails if a read whose time is over asks the memory node for anything.
TEST_P(DeadlineTest, NothingIsPostedAfterIt) {
  const uint64_t before = faults_->CountPosts();
  ExpectTimedOut(&Late);
  const std::unique_ptr<GetPipeline> pipeline = db_->NewGetPipeline(Late(), 4);
  EXPECT_TRUE(pipeline->Submit(NumberedKey(1), 1).IsTimedOut());
  EXPECT_EQ(faults_->CountPosts(), before);
}

// Fails if what was answered in time is lost with what was not.
TEST_P(DeadlineTest, AnswersThatAreThereStay) {
  ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(5), "in the memtable"));
  LoseReads();
  const std::vector<std::string> names = {NumberedKey(5), NumberedKey(6)};
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      db_->MultiGet(Soon(), std::vector<Slice>(names.begin(), names.end()), &values);
  EXPECT_OK(statuses[0]);
  EXPECT_EQ(values[0], "in the memtable");
  EXPECT_TRUE(statuses[1].IsTimedOut()) << statuses[1].ToString();
}

// Fails if a scan whose time ends on its way goes on.
TEST_P(DeadlineTest, AScanEnds) {
  const std::unique_ptr<Iterator> iterator(
      db_->NewIterator(Until(Clock::now() + milliseconds(50))));
  iterator->SeekToFirst();
  while (iterator->Valid()) {
    iterator->Next();
    if (!iterator->Valid() && iterator->status().ok()) iterator->SeekToFirst();
  }
  EXPECT_TRUE(iterator->status().IsTimedOut()) << iterator->status().ToString();
}

// Fails if a write waits for flushes beyond its deadline, or has written anything then.
TEST_P(DeadlineTest, AWriteGivesUpWaiting) {
  const HeldFlushes held;
  WriteOptions options;
  Status status;
  uint64_t key = 1000;
  while (status.ok()) {
    options.deadline = Clock::now() + milliseconds(20);
    status = db_->Put(options, NumberedKey(++key), std::string(1000, 'v'));
  }
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("memtables"));
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(key)), "(none)");
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DeadlineTest, testing::Values("", "tcp"), [](const auto& fabric) {
  return std::string(*fabric.param == '\0' ? "embedded" : fabric.param);
});

}  // namespace
}  // namespace dlsm
