#include "db/handle/writer.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/write_batch.h"
#include "db/log/write_log.h"
#include "db/memtable/memtable.h"
#include "db/memtable/memtable_epochs.h"
#include "db/test/bytewise_order_testing.h"
#include "db/test/no_manifest_testing.h"
#include "port/failing_allocations_testing.h"
#include "table/memory_queue_pairs_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// A handle of one shard, or of two that meet at "m".
class WriterTest : public testing::TestWithParam<size_t> {
 protected:
  static constexpr size_t kMemtableBytes = 1 << 20;

  static std::vector<Level> TwoLevels() {
    return {Level(Guard::Order::kNewestFirst), Level(Guard::Order::kByKey)};
  }

  WriterTest() {
    map_.nodes.resize(shards());
    if (shards() == 2) map_.boundaries = {"m"};
    writer_.emplace(WriterParts());
  }

  Writer::Parts WriterParts() {
    Writer::Parts parts{};
    parts.comparator = BytewiseComparator();
    parts.range = &range_;
    parts.map = &map_;
    for (size_t i = 0; i < shards(); ++i) parts.shards.push_back({&gates_[i], &trees_[i]});
    parts.sequencer = &epochs_.sequencer();
    parts.statistics = &statistics_;
    parts.calls.cover = [this](size_t shard, uint64_t bytes, uint64_t entries) {
      covered_.push_back(std::to_string(shard) + ": " + std::to_string(bytes) + " in " +
                         std::to_string(entries));
    };
    parts.calls.look = [this](size_t shard) { looks_.push_back(shard); };
    parts.calls.named = [](size_t shard, const Status& status) {
      return Status::FromCode(status.code(), "shard " + std::to_string(shard));
    };
    parts.calls.flush = [this] { return flushed_; };
    return parts;
  }
  // The writer has a log from now on, which has no room until AddSegment().
  void NewLog(std::function<void()> wake) {
    WriteLog::Config config;
    config.segment_bytes = 4096;
    config.bytes_max = 65536;
    config.header = memory_.Allocate(kLogHeaderBytes);
    config.timeout = config.patience = std::chrono::seconds(60);
    WriteLog::Parts log_parts;
    log_parts.queue_pairs = &queue_pairs_;
    log_parts.statistics = &statistics_;
    log_parts.may_still_land = [] { return false; };
    log_parts.wake = std::move(wake);
    log_parts.revocable = true;
    ASSERT_OK(WriteLog::New(config, std::move(log_parts), &log_));
    Writer::Parts parts = WriterParts();
    parts.log = log_.get();
    writer_.emplace(std::move(parts));
  }
  void AddSegment() {
    ASSERT_OK(log_->AddSegment(memory_.Allocate(kLogSegmentHeaderBytes + 4096)));
  }

  size_t shards() const { return GetParam(); }
  size_t ShardOf(const std::string& key) const { return shards() == 2 && key >= "m" ? 1 : 0; }
  // Of the newest version of the key: "number:value", "number:(deleted)", or "" if there is none.
  std::string Find(const std::string& key) {
    Memtable& memtable = trees_[ShardOf(key)].MemtableOf(epochs_.sequencer().Now().epoch);
    const std::unique_ptr<Iterator> entries = memtable.NewIterator();
    for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
      if (ExtractUserKey(entries->key()) != Slice(key)) continue;
      const uint64_t trailer = ExtractTrailer(entries->key());
      return std::to_string(TrailerSequence(trailer)) + ":" +
             (TrailerType(trailer) == ValueType::kDeletion ? "(deleted)"
                                                           : entries->value().ToString());
    }
    return "";
  }
  SequenceNumber NextNumber() { return epochs_.sequencer().Now().next; }

  const Options options_;
  const ComputeRange range_{options_};
  ShardMap map_;
  Statistics statistics_;
  NoManifest store_;
  MemtableEpochs epochs_{0};
  std::array<StallGate, 2> gates_{StallGate{std::chrono::milliseconds(10), &statistics_},
                                  StallGate{std::chrono::milliseconds(10), &statistics_}};
  std::array<Tree, 2> trees_{
      Tree{kMemtableBytes, Bytewise(), Manifest(), TwoLevels(), &store_, &epochs_},
      Tree{kMemtableBytes, Bytewise(), Manifest(), TwoLevels(), &store_, &epochs_}};
  Status flushed_;
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_{&memory_};
  std::unique_ptr<WriteLog> log_;
  std::vector<std::string> covered_;
  std::vector<size_t> looks_;
  std::optional<Writer> writer_;
};

// Fails if the order of a batch is not that of its numbers, or an entry is in another shard.
TEST_P(WriterTest, ABatchHasItsNumbersInItsOrder) {
  ASSERT_OK(writer_->WriteOne({}, ValueType::kValue, "z", "old"));
  WriteBatch batch;
  batch.Put("z", "1");
  batch.Put("a", "2");
  batch.Delete("z");
  batch.Put("", "");
  ASSERT_OK(writer_->Write({}, batch));
  EXPECT_EQ(Find("z"), "4:(deleted)");
  EXPECT_EQ(Find("a"), "3:2");
  EXPECT_EQ(Find(""), "5:");
  ASSERT_OK(writer_->WriteOne({}, ValueType::kDeletion, "a", ""));
  EXPECT_EQ(Find("a"), "6:(deleted)");
  EXPECT_EQ(NextNumber(), 7u);
  EXPECT_EQ(statistics_.Get(Ticker::kKeysWritten), 6u);
  EXPECT_TRUE(looks_.empty());
}

// Fails if a write that has waited for room in the log goes on though its gate was closed
// meanwhile.
TEST_P(WriterTest, AWriteThatWaitedForTheLogPassesItsGateAgain) {
  const auto close_and_give_room = [this] {
    for (StallGate& gate : gates_) gate.Refuse(Status::IOFenced("taken over"));
    AddSegment();
  };
  NewLog(close_and_give_room);
  EXPECT_TRUE(writer_->WriteOne({}, ValueType::kValue, "a", "1").IsIOFenced());
  EXPECT_EQ(Find("a"), "");
  EXPECT_EQ(log_->tail(), 0u);
}

TEST_P(WriterTest, ABatchThatWaitedForTheLogPassesItsGatesAgain) {
  NewLog([this] {
    for (StallGate& gate : gates_) gate.Refuse(Status::IOFenced("taken over"));
    AddSegment();
  });
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("z", "2");
  EXPECT_TRUE(writer_->Write({}, batch).IsIOFenced());
  EXPECT_EQ(Find("a"), "");
  EXPECT_EQ(log_->tail(), 0u);
}

// Fails if a write with room in the log does not go on after its wait.
TEST_P(WriterTest, AWriteWaitsForRoomInTheLog) {
  NewLog([this] { AddSegment(); });
  EXPECT_OK(writer_->WriteOne({}, ValueType::kValue, "a", "1"));
  EXPECT_EQ(Find("a"), "1:1");
  EXPECT_EQ(log_->CompleteUpTo(), log_->tail());
  EXPECT_GT(log_->tail(), 0u);
}

// Fails if a write that is refused at a gate or for what it says has taken numbers, is there in
// part, or if the error does not name the shard.
TEST_P(WriterTest, WhatIsRefusedTakesNoNumbers) {
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("z", "2");
  const size_t last = shards() - 1;
  gates_[last].Set(StallReason::kMemory, true);
  WriteOptions at_once;
  at_once.no_slowdown = true;
  for (const WriteOptions& options : {WriteOptions(), at_once}) {
    EXPECT_TRUE(writer_->Write(options, batch).IsBusy());
    const Status refused = writer_->WriteOne(options, ValueType::kValue, "z", "value");
    EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
    EXPECT_EQ(refused.message().ToString(), "shard " + std::to_string(last));
  }
  ASSERT_OK(writer_->WriteOne(at_once, ValueType::kDeletion, "z", ""));  // It makes room.
  gates_[last].Set(StallReason::kMemory, false);
  batch.Put(std::string(kKeyBytesMax + 1, 'k'), "3");
  EXPECT_TRUE(writer_->Write({}, batch).IsInvalidArgument());
  EXPECT_TRUE(writer_->WriteOne({}, ValueType::kValue, "z", std::string(kValueBytesMax + 1, 'v'))
                  .IsInvalidArgument());
  EXPECT_EQ(Find("a"), "");
  EXPECT_EQ(Find("z"), "1:(deleted)");
  EXPECT_EQ(NextNumber(), 2u);
}

// There is no memory for the first, the second, ... block. Fails if any of a batch is there, or if
// the memtables are not looked at.
TEST_P(WriterTest, ABatchThatFindsNoMemoryIsNotThere) {
  constexpr int kEntries = 400;
  WriteBatch batch;
  for (int i = 0; i < kEntries; ++i) {
    batch.Put((i % 2 == 0 ? "a" : "z") + std::to_string(i), std::string(200, 'v'));
  }
  uint64_t refused = 0;
  for (bool again = true; again;) {
    looks_.clear();
    const SequenceNumber next = NextNumber();
    const port::FailingAllocations failing(refused + 1);
    const Status status = writer_->Write({}, batch);
    again = failing.failed() > 0;
    EXPECT_EQ(NextNumber(), next + kEntries);
    if (again) {
      ++refused;
      EXPECT_TRUE(status.IsBusy()) << status.ToString();
      EXPECT_EQ(looks_.size(), shards());
      for (const int i : {0, 1, kEntries - 2, kEntries - 1}) {
        EXPECT_EQ(Find((i % 2 == 0 ? "a" : "z") + std::to_string(i)), "") << i;
      }
    } else {
      EXPECT_OK(status);
      EXPECT_NE(Find("a0"), "");
    }
  }
  EXPECT_GT(refused, 1u);
}

// The same of a single entry.
TEST_P(WriterTest, AnEntryThatFindsNoMemoryIsNotThere) {
  {
    const port::FailingAllocations failing(1);
    EXPECT_TRUE(writer_->WriteOne({}, ValueType::kValue, "z", std::string(100'000, 'v')).IsBusy());
  }
  EXPECT_EQ(Find("z"), "");
  EXPECT_EQ(looks_, std::vector<size_t>{shards() - 1});
  ASSERT_OK(writer_->WriteOne({}, ValueType::kValue, "z", "value"));
  EXPECT_EQ(Find("z"), "2:value");
}

// Fails if a batch for whose division among shards there is no memory has done anything.
TEST_P(WriterTest, ABatchThatCannotBeDividedTakesNoNumbers) {
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("z", "2");
  const port::FailingAllocationsAt failing("batch: divided");
  const Status status = writer_->Write({}, batch);
  EXPECT_EQ(status.IsBusy(), shards() > 1) << status.ToString();
  EXPECT_EQ(NextNumber(), shards() > 1 ? 1u : 3u);
}

// Fails if room is not looked for before what is large, by shard, or is for what is small.
TEST_P(WriterTest, WhatIsLargeIsCovered) {
  const std::string value(20'000, 'v');
  ASSERT_OK(writer_->WriteOne({}, ValueType::kValue, "z", "small"));
  EXPECT_TRUE(covered_.empty());
  ASSERT_OK(writer_->WriteOne({}, ValueType::kValue, "z", value));
  WriteBatch batch;
  batch.Put("a", "small");
  batch.Put("y", value);
  batch.Put("z", value);
  ASSERT_OK(writer_->Write({}, batch));
  const std::vector<std::string> expected =
      shards() == 1 ? std::vector<std::string>{"0: 20001 in 1", "0: 40008 in 3"}
                    : std::vector<std::string>{"1: 20001 in 1", "1: 40002 in 2"};
  EXPECT_EQ(covered_, expected);
}

// Fails if a memtable that has become large is not looked at, or another one is.
TEST_P(WriterTest, ALargeMemtableIsLookedAt) {
  const std::string value(kMemtableBytes, 'v');
  ASSERT_OK(writer_->WriteOne({}, ValueType::kValue, "z", value));
  EXPECT_EQ(looks_, std::vector<size_t>{shards() - 1});
  looks_.clear();
  WriteBatch batch;
  batch.Put("a", "small");
  batch.Put("z", "small");
  ASSERT_OK(writer_->Write({}, batch));
  EXPECT_EQ(looks_, std::vector<size_t>{shards() - 1});
}

// Fails if a caller is told that nothing was written where it was, and is not safe.
TEST_P(WriterTest, AWriteThatIsNotSafeYetIsNotBusy) {
  WriteOptions sync;
  sync.sync = true;
  flushed_ = Status::Busy("no room");
  const Status single = writer_->WriteOne(sync, ValueType::kValue, "a", "1");
  EXPECT_TRUE(single.IsTimedOut()) << single.ToString();
  WriteBatch batch;
  EXPECT_TRUE(writer_->Write(sync, batch).IsTimedOut()) << "what was written before is not safe";
  batch.Put("z", "2");
  flushed_ = Status::IOError("the node is gone");
  const Status several = writer_->Write(sync, batch);
  EXPECT_TRUE(several.IsIOError()) << several.ToString();
  EXPECT_NE(several.ToString().find("written, but not flushed"), std::string::npos);
  EXPECT_EQ(Find("a"), "1:1");
  EXPECT_EQ(Find("z"), "2:2");
  EXPECT_OK(writer_->Write({}, batch));
  flushed_ = Status::OK();
  EXPECT_OK(writer_->Write(sync, batch));
  EXPECT_EQ(statistics_.Get(Ticker::kSyncedWrites), 4u);
}

INSTANTIATE_TEST_SUITE_P(Shards, WriterTest, testing::Values(1, 2),
                         [](const auto& each) { return each.param == 1 ? "One" : "Two"; });

}  // namespace
}  // namespace dlsm
