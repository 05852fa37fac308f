// What a database holds at its memory node besides its tables: little while it is empty or idle,
// and always what the flush of its memtables needs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "dLSM/write_batch.h"
#include "db/test/test_database_testing.h"
#include "port/sync_point.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

class DbReserveTest : public testing::Test {
 protected:
  DbReserveTest() {
    TestNode::Config config;
    config.bytes = uint64_t{1} << 30;  // It does not limit the reserve for what is put here.
    config.refuse_extent = [this] { return refusing_.load(); };
    node_ = std::make_unique<TestNode>(config);
    options_ = node_->With(Options(), "shm");  // Memtables of the default size.
    options_.create_if_missing = true;
    options_.write_stall_timeout_ms = 200;
    options_.log = LogLevel::kNone;  // It would be most of what the database holds.
    db_ = OpenOrDie(options_, "db");
  }

  // Returns how many bytes were taken until one was refused.
  uint64_t PutUntilRefused() {
    Status put;
    while (put.ok()) {
      put = db_->Put(WriteOptions(), NumberedKey(keys_), std::string(kValueBytes, 'v'));
      if (put.ok()) ++keys_;
    }
    EXPECT_TRUE(put.IsBusy()) << put.ToString();
    return keys_ * kValueBytes;
  }
  void ExpectAll() {
    for (uint64_t i = 0; i < keys_; ++i) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), std::string(kValueBytes, 'v')) << i;
    }
  }

  static constexpr size_t kValueBytes = 1000;
  std::atomic<bool> refusing_{false};
  std::unique_ptr<TestNode> node_;
  Options options_;
  uint64_t keys_ = 0;
  std::unique_ptr<DB> db_;
};

// Fails if a database that was hardly written to takes what one with full memtables needs.
TEST_F(DbReserveTest, LittleWhileThereIsLittle) {
  EXPECT_LE(node_->used_bytes(), 600u << 10);
  for (; keys_ < 50; ++keys_) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(keys_), std::string(kValueBytes, 'v')));
  }
  ASSERT_OK(db_->Flush(FlushOptions()));
  EXPECT_LE(node_->used_bytes(), 1u << 20);
}

// Fails if memtables may have more than the reserve can take: what was accepted could not be
// flushed, or deletions could not, if others had the memory by then.
TEST_F(DbReserveTest, WhatWasAcceptedFindsRoomOfASuddenlyFullMemoryNode) {
  refusing_ = true;
  const uint64_t taken = PutUntilRefused();
  EXPECT_GE(taken, 50u << 10);
  EXPECT_LE(taken, 512u << 10);
  EXPECT_OK(db_->Flush(FlushOptions()));
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_OK(db_->Delete(WriteOptions(), NumberedKey(i)));
  EXPECT_OK(db_->Flush(FlushOptions()));
  refusing_ = false;
  EXPECT_TRUE(Eventually([this] { return db_->Put(WriteOptions(), "again", "v").ok(); }));
}

// The same of what comes at once. Fails if it is taken though it could not be flushed, or if
// smaller writes are refused with it once there is room for what it would have needed.
TEST_F(DbReserveTest, ALargeBatchIsRefusedThatFindsNoRoom) {
  WriteBatch large;
  for (uint64_t i = 0; i < 2000; ++i) large.Put(NumberedKey(i), std::string(kValueBytes, 'v'));
  refusing_ = true;
  const Status refused = db_->Write(WriteOptions(), &large);
  EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(0)), "(none)");
  refusing_ = false;
  EXPECT_TRUE(Eventually([&] { return db_->Write(WriteOptions(), &large).ok(); }));
  refusing_ = true;
  EXPECT_OK(db_->Flush(FlushOptions())) << "it has a reserve";
  refusing_ = false;
}

// Fails if a writer that is faster than its reserve grows is refused, or leaves a small table for
// each time that it grows.
TEST_F(DbReserveTest, GrowsBesideAFastWriter) {
  for (; keys_ < 20000; ++keys_) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(keys_), std::string(kValueBytes, 'v')));
  }
  EXPECT_EQ(db_->GetStatistics()->Get(Ticker::kFlushes), 0u);
  EXPECT_GE(node_->used_bytes(), 20u << 20);
  refusing_ = true;
  EXPECT_OK(db_->Flush(FlushOptions()));
  refusing_ = false;
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

std::atomic<uint64_t> puts_done{0};
std::atomic<uint64_t> puts_before_wait{0};
std::atomic<bool> waited_for_second_look{false};

// The first look of a database at its memory node comes late: once its writer waits. Later looks
// come only after the writer has gone on.
void HoldUpLooks(const char* place) {
  if (place == std::string_view("house: first look")) {
    uint64_t seen = UINT64_MAX;
    for (int i = 0; i < 250 && (puts_done == 0 || seen != puts_done); ++i) {
      seen = puts_done;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    puts_before_wait = puts_done.load();
  } else if (place == std::string_view("house: look") && puts_before_wait != 0) {
    const uint64_t then = puts_before_wait;
    if (!Eventually([then] { return puts_done > then; })) waited_for_second_look = true;
  }
}

// Fails if a writer that has used up its reserve before the first look waits for the second one.
TEST_F(DbReserveTest, ALateFirstLookFillsTheReserve) {
  constexpr uint64_t kPuts = 4000;
  db_.reset();
  port::SyncPointHookOfProcess() = &HoldUpLooks;
  options_.write_stall_timeout_ms = 60000;
  db_ = OpenOrDie(options_, "another");
  for (uint64_t i = 0; i < kPuts; ++i) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(kValueBytes, 'v')));
    puts_done = i + 1;
  }
  port::SyncPointHookOfProcess() = nullptr;
  EXPECT_GT(puts_before_wait, 0u);
  EXPECT_LT(puts_before_wait, kPuts) << "the writer did not wait";
  EXPECT_FALSE(waited_for_second_look);
}

}  // namespace
}  // namespace dlsm
