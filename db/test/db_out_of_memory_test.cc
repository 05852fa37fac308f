// Writes and background work for which the process has no memory.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/write_batch.h"
#include "db/test/held_flushes_testing.h"
#include "db/test/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/eventually_testing.h"
#include "util/random.h"
#include "util/watchdog_testing.h"

namespace dlsm {
namespace {

class OutOfMemoryTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr uint64_t kKeys = 600;
  using Updates = std::vector<std::pair<std::string, std::string>>;  // No value: a deletion.

  void SetUp() override {
    options_ = node_.With(TinyOptions(), "shm");
    if (GetParam()) options_.shard_boundaries = {NumberedKey(kKeys / 3), NumberedKey(kKeys / 2)};
    db_ = OpenOrDie(options_, "db");
  }

  // Mostly several, which are a batch. Sizes differ, so that each kind of allocation has its turn.
  Updates Draw() {
    Updates updates(random_.OneIn(4) ? 1 : 2 + random_.Uniform(7));
    for (auto& [key, value] : updates) {
      key = NumberedKey(random_.Uniform(kKeys));
      const size_t bytes = random_.OneIn(10) ? 3000 : random_.Uniform(200);
      if (!random_.OneIn(8)) value = std::to_string(++written_) + std::string(bytes, '.');
    }
    return updates;
  }
  Status Write(const Updates& updates) {
    if (updates.size() == 1) {
      const auto& [key, value] = updates[0];
      return value.empty() ? db_->Delete(WriteOptions(), key)
                           : db_->Put(WriteOptions(), key, value);
    }
    WriteBatch batch;
    for (const auto& [key, value] : updates) {
      if (value.empty()) {
        batch.Delete(key);
      } else {
        batch.Put(key, value);
      }
    }
    return db_->Write(WriteOptions(), &batch);
  }
  void Note(const Updates& updates) {
    for (const auto& [key, value] : updates) {
      if (value.empty()) {
        model_.erase(key);
      } else {
        model_[key] = value;
      }
    }
  }
  void ExpectKeysOf(const Updates& updates) {
    for (const auto& [key, value] : updates) {
      const auto expected = model_.find(key);
      ASSERT_EQ(GetOr(db_.get(), key), expected == model_.end() ? "(none)" : expected->second);
    }
  }
  void ExpectAll() {
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    for (const auto& [key, value] : model_) {
      ASSERT_TRUE(iterator->Valid());
      ASSERT_EQ(iterator->key().ToString(), key);
      ASSERT_EQ(iterator->value().ToString(), value);
      iterator->Next();
    }
    ASSERT_FALSE(iterator->Valid());
    ASSERT_OK(iterator->status());
    iterator->SeekToLast();
    for (auto at = model_.rbegin(); at != model_.rend(); ++at) {
      ASSERT_TRUE(iterator->Valid());
      ASSERT_EQ(iterator->key().ToString(), at->first);
      iterator->Prev();
    }
    ASSERT_FALSE(iterator->Valid());
  }

  TestNode node_;
  Options options_;
  std::unique_ptr<DB> db_;
  Random random_{17};
  uint64_t written_ = 0;
  std::map<std::string, std::string> model_;
};

// Writes until the first, the second, ... allocation fails: of a record, of a node that is split,
// or of the next memtable. Fails if something stays locked, if the write that is refused is there
// in part, now or once it has been flushed, or if one that was not is lost.
TEST_P(OutOfMemoryTest, ARefusedWriteHasDoneNothing) {
  const Watchdog watchdog(std::chrono::seconds(300));
  for (uint64_t n = 1; n <= 250; ++n) {
    SCOPED_TRACE(testing::Message() << "allocation " << n);
    Updates updates;
    Status refused;
    {
      const port::FailingAllocations failing(n);
      while (refused.ok()) {
        updates = Draw();
        refused = Write(updates);
        if (refused.ok()) Note(updates);
      }
      EXPECT_GT(failing.failed(), 0u);
    }
    EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
    EXPECT_NE(refused.ToString().find("memory"), std::string::npos) << refused.ToString();
    ASSERT_NO_FATAL_FAILURE(ExpectKeysOf(updates));
    if (n % 10 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectAll());
    }
    if (n % 2 == 0) {
      ASSERT_OK(Write(updates));
      Note(updates);
      ASSERT_NO_FATAL_FAILURE(ExpectKeysOf(updates));
    }
    if (n % 25 == 0) {
      ASSERT_OK(db_->Flush(FlushOptions()));
      ASSERT_NO_FATAL_FAILURE(ExpectAll());
    }
  }
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, "db");
  ExpectAll();
}

INSTANTIATE_TEST_SUITE_P(Shards, OutOfMemoryTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Three" : "One"; });

using port::FailingAllocationsOfAll;
using Spared = FailingAllocationsOfAll::Spared;

// What nobody has called for may fail, too: nobody would be told by an exception.
class BackgroundWithoutMemoryTest : public testing::Test {
 protected:
  BackgroundWithoutMemoryTest() {
    options_ = node_.With(TinyOptions(), "shm");
    options_.max_write_buffer_number = 2;
    at_once_.wait = false;
  }
  void Open() { db_ = OpenOrDie(options_, "background"); }
  void TearDown() override { CloseAndDestroy(&db_, options_, "background"); }

  uint64_t Flushes() { return db_->GetStatistics()->Get(Ticker::kFlushes); }

  TestNode node_;
  Options options_;
  FlushOptions at_once_;
  std::unique_ptr<DB> db_;
};

// The flush that has ended makes room for the next memtable, for which there is no memory. Fails if
// that ends the process, or if what somebody has asked to be flushed is forgotten.
TEST_F(BackgroundWithoutMemoryTest, AFlushThatWasAskedForIsDoneOnceThereIsSome) {
  Open();
  std::optional<FailingAllocationsOfAll> failing;
  {
    const HeldFlushes held;
    ASSERT_OK(db_->Put(WriteOptions(), "first", "1"));
    ASSERT_OK(db_->Flush(at_once_));
    ASSERT_TRUE(Eventually([] { return HeldFlushes::any(); }));
    ASSERT_OK(db_->Put(WriteOptions(), "second", "2"));
    ASSERT_OK(db_->Flush(at_once_));
    failing.emplace(Spared::kItsMaker);
  }
  EXPECT_TRUE(Eventually([&failing] { return failing->failed() >= 2; }));
  EXPECT_EQ(Flushes(), 1u);
  EXPECT_EQ(GetOr(db_.get(), "second"), "2");
  failing.reset();
  EXPECT_TRUE(Eventually([this] { return Flushes() >= 2; }));
  EXPECT_EQ(GetOr(db_.get(), "second"), "2");
}

// There is no memory for the indexes of tables that were flushed or merged. Fails if that ends the
// process, if anything is lost or left behind by it, or if it is not tried again.
TEST_F(BackgroundWithoutMemoryTest, TablesThatCannotBeOpenedAreMadeAgain) {
  constexpr uint64_t kEntries = 20;
  constexpr uint64_t kValueBytes = 1000;
  constexpr uint64_t kAttempts = 50;
  options_.level0_file_num_compaction_trigger = options_.max_tables_per_guard = 8;
  options_.level0_stop_writes_trigger = 16;
  options_.idle_size_amplification_percent = 0;  // Nothing is merged but by request.
  const auto put_all = [this](char version) {
    for (uint64_t i = 0; i < kEntries; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(kValueBytes, version)));
    }
  };
  for (const CompactionPlace place :
       {CompactionPlace::kMemoryNode, CompactionPlace::kComputeNode}) {
    SCOPED_TRACE(static_cast<int>(place));
    options_.compaction_place = place;
    Open();
    put_all('a');
    ASSERT_OK(db_->Flush(FlushOptions()));
    put_all('b');
    {
      const FailingAllocationsOfAll failing(Spared::kItsMaker);
      ASSERT_OK(db_->Flush(at_once_));
      EXPECT_TRUE(Eventually([&failing] { return failing.failed() >= 2; }));
      EXPECT_EQ(Flushes(), 1u);
    }
    EXPECT_TRUE(Eventually([this] { return Flushes() == 2; }));
    ASSERT_OK(db_->WaitForBackgroundWork());
    const uint64_t used_before = node_.used_bytes();
    {
      const FailingAllocationsOfAll failing(Spared::kNobody);
      for (uint64_t i = 0; i < kAttempts; ++i) {
        EXPECT_FALSE(db_->CompactRange(nullptr, nullptr).ok());
      }
      EXPECT_GE(failing.failed(), kAttempts);
    }
    ASSERT_OK(db_->WaitForBackgroundWork());
    EXPECT_LT(node_.used_bytes(), used_before + kAttempts / 2 * kEntries * kValueBytes);
    EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), 2 * kEntries);
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kEntries);
    for (uint64_t i = 0; i < kEntries; ++i) {
      EXPECT_EQ(GetOr(db_.get(), NumberedKey(i)), std::string(kValueBytes, 'b'));
    }
    CloseAndDestroy(&db_, options_, "background");
  }
}

// A shard has taken all that there is for memtables, and there is no memory for its next one. Fails
// if writers, who have to wait, are told that flushes make no progress and to look at the network,
// or are not let through once there is memory.
TEST_F(BackgroundWithoutMemoryTest, WritersHearWhyAFullMemtableStays) {
  options_.shard_boundaries = {"m"};
  options_.write_stall_timeout_ms = 300;
  Open();
  const std::string most(size_t{100} << 10, 'v');  // Of 128 KiB, of which 32 are the other shard's.
  {
    const FailingAllocationsOfAll failing(Spared::kNobody, /*made=*/1);  // The record's.
    ASSERT_OK(db_->Put(WriteOptions(), "a", most));
    const Status refused = db_->Put(WriteOptions(), "b", "small");
    EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
    EXPECT_NE(refused.ToString().find("memory for memtables"), std::string::npos)
        << refused.ToString();
    EXPECT_GT(failing.failed(), 0u);
    EXPECT_OK(db_->Put(WriteOptions(), "z", "small"));
  }
  EXPECT_TRUE(Eventually([this] { return db_->Put(WriteOptions(), "b", "small").ok(); }));
  EXPECT_EQ(GetOr(db_.get(), "a"), most);
}

// Memory ends within a batch that has filled a memtable by then. Fails if what it has taken stays
// until another write succeeds: where the next ones have no memory either, none does.
TEST_F(BackgroundWithoutMemoryTest, WhatARefusedBatchHasTakenIsGivenBack) {
  constexpr uint64_t kTaken = 29;  // Entries that there is memory for, more than a memtable is for.
  const std::string value(3000, 'v');
  ASSERT_GT(kTaken * value.size(), options_.write_buffer_size);
  WriteBatch batch;
  for (uint64_t i = 0; i <= kTaken; ++i) batch.Put(NumberedKey(i), value);
  for (const bool divided : {false, true}) {
    SCOPED_TRACE(divided);
    if (divided) options_.shard_boundaries = {"z"};
    Open();
    {
      const port::FailingAllocations failing(kTaken + 1);
      const Status refused = db_->Write(WriteOptions(), &batch);
      EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
      EXPECT_GT(failing.failed(), 0u);
    }
    EXPECT_TRUE(Eventually([this] { return Flushes() >= 1; }));
    EXPECT_EQ(GetOr(db_.get(), NumberedKey(0)), "(none)");
    CloseAndDestroy(&db_, options_, "background");
  }
}

// The same of puts that find memory for their record and none for its place in the memtable.
TEST_F(BackgroundWithoutMemoryTest, WhatRefusedPutsHaveTakenIsGivenBack) {
  constexpr uint64_t kInNode = 32;
  const std::string value(1000, 'v');
  const uint64_t attempts = options_.write_buffer_size / value.size();
  Open();
  for (uint64_t i = 0; i < kInNode; ++i) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), value));
  }
  for (uint64_t i = 0; i < attempts; ++i) {
    const port::FailingAllocations failing(2);
    const Status put = db_->Put(WriteOptions(), NumberedKey(kInNode), value);
    EXPECT_TRUE(put.ok() || put.IsBusy()) << put.ToString();
  }
  EXPECT_TRUE(Eventually([this] { return Flushes() >= 1; }));
}

// Fails if the caller is told that all was flushed, waits for ever, or gets an exception.
TEST_F(BackgroundWithoutMemoryTest, WhoWaitsForAFlushIsTold) {
  options_.write_stall_timeout_ms = 300;
  Open();
  ASSERT_OK(db_->Put(WriteOptions(), "key", "value"));
  {
    const FailingAllocationsOfAll failing(Spared::kNobody);
    const Status status = db_->Flush(FlushOptions());
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
    EXPECT_NE(status.ToString().find("memory"), std::string::npos) << status.ToString();
    EXPECT_GT(failing.failed(), 0u);
  }
  EXPECT_EQ(GetOr(db_.get(), "key"), "value");
  EXPECT_OK(db_->Flush(FlushOptions()));
  EXPECT_GE(Flushes(), 1u);
}

// The same where all of several shards wait for memory. Fails if each is waited for as long as one,
// one after the other.
TEST_F(BackgroundWithoutMemoryTest, WhoWaitsForManyShardsIsToldAsSoon) {
  constexpr std::chrono::milliseconds kPatience(2000);
  options_.max_write_buffer_number = 8;
  options_.shard_boundaries = {"b", "c", "d", "e", "f"};
  options_.write_stall_timeout_ms = static_cast<uint64_t>(kPatience.count());
  Open();
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    ASSERT_OK(db_->Put(WriteOptions(), key, "value"));
  }
  {
    const FailingAllocationsOfAll failing(Spared::kNobody);
    const auto start = std::chrono::steady_clock::now();
    const Status status = db_->Flush(FlushOptions());
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
    EXPECT_GE(took, kPatience);
    EXPECT_LT(took, 4 * kPatience);
  }
  EXPECT_OK(db_->Flush(FlushOptions()));
  EXPECT_GE(Flushes(), 6u);
}

// Who closes finds no memory at first. Fails if what was acknowledged is lost by that, or if a
// destructor ends the process.
TEST_F(BackgroundWithoutMemoryTest, CloseWaitsForSome) {
  Open();
  ASSERT_OK(db_->Put(WriteOptions(), "key", "value"));
  {
    const port::FailingAllocations failing(1);
    EXPECT_OK(db_->Close());
    EXPECT_GT(failing.failed(), 0u);
  }
  Open();
  EXPECT_EQ(GetOr(db_.get(), "key"), "value");
}

// The same where it finds none at all.
TEST_F(BackgroundWithoutMemoryTest, CloseSaysWhatIsLost) {
  options_.write_stall_timeout_ms = 300;
  Open();
  ASSERT_OK(db_->Put(WriteOptions(), "key", "value"));
  {
    const FailingAllocationsOfAll failing(Spared::kNobody);
    const Status status = db_->Close();
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
  }
  Open();
  EXPECT_EQ(GetOr(db_.get(), "key"), "(none)");
}

}  // namespace
}  // namespace dlsm
