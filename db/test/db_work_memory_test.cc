// Work in the background, and calls that wait for it, for which the process has no memory: whatever
// the moment, it is done once there is some, and nothing is lost, left behind or kept for ever.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "db/test/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

using port::FailingAllocationsAt;

// Of a place where memory ends, for a test's name.
std::string NameOfPlace(std::string place) {
  std::erase_if(place, [](char c) { return c == ':' || c == ' '; });
  return place;
}

class WorkMemoryTest : public testing::Test {
 protected:
  static constexpr uint64_t kEntries = 20;
  static constexpr uint64_t kValueBytes = 1000;
  static constexpr uint64_t kAttempts = 20;

  WorkMemoryTest() {
    options_ = node_.With(TinyOptions(), "shm");
    options_.publish_interval_ms = 0;
    at_once_.wait = false;
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, "work"); }

  void Open() { db_ = OpenOrDie(options_, "work"); }
  // Nothing is merged but by request.
  void MergeByRequest() {
    options_.level0_file_num_compaction_trigger = options_.max_tables_per_guard = 8;
    options_.level0_stop_writes_trigger = 16;
    options_.idle_size_amplification_percent = 0;
  }
  void PutAll(char version) {
    for (uint64_t i = 0; i < kEntries; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(kValueBytes, version)));
    }
  }
  void ExpectAll(char version) {
    for (uint64_t i = 0; i < kEntries; ++i) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), std::string(kValueBytes, version));
    }
  }
  void Reopen() {
    ASSERT_OK(db_->Close());
    Open();
  }
  uint64_t Count(Ticker ticker) { return db_->GetStatistics()->Get(ticker); }
  uint64_t Merges() { return Count(Ticker::kMergesRemote) + Count(Ticker::kMergesLocal); }

  TestNode node_;
  Options options_;
  FlushOptions at_once_;
  std::unique_ptr<DB> db_;
};

class MergeMemoryTest : public WorkMemoryTest,
                        public testing::WithParamInterface<std::pair<const char*, bool>> {};

// Memory ends at one moment of a merge, again and again. Fails if that ends the process, if the
// merge is not tried again, or if an input or an output is lost or kept by it.
TEST_P(MergeMemoryTest, AMergeLeavesNothingBehindAndIsMadeAgain) {
  const auto& [place, here] = GetParam();
  options_.compaction_place = here ? CompactionPlace::kComputeNode : CompactionPlace::kMemoryNode;
  MergeByRequest();
  Open();
  PutAll('a');
  ASSERT_OK(db_->Flush(FlushOptions()));
  PutAll('b');
  ASSERT_OK(db_->Flush(FlushOptions()));
  ASSERT_OK(db_->WaitForBackgroundWork());
  const uint64_t used_before = node_.used_bytes();
  {
    const FailingAllocationsAt failing(place);
    for (uint64_t i = 0; i < kAttempts; ++i) {
      const Status failed = db_->CompactRange(nullptr, nullptr);
      EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
    }
    EXPECT_GE(failing.failed(), kAttempts);
  }
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), 2 * kEntries);
  ExpectAll('b');
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_LT(node_.used_bytes(), used_before + kAttempts / 2 * kEntries * kValueBytes);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kEntries);
  ExpectAll('b');
  Reopen();
  ExpectAll('b');
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kEntries);
}

INSTANTIATE_TEST_SUITE_P(EveryMoment, MergeMemoryTest,
                         testing::Values(std::pair("merge: tables", true),
                                         std::pair("manifest: to be put", false),
                                         std::pair("manifest: to be put", true)),
                         [](const auto& each) {
                           return NameOfPlace(each.param.first) +
                                  (each.param.second ? "Here" : "There");
                         });

// Several parts side by side, of which some find no memory. Fails if a thread is not waited for, or
// if what the others have made takes effect or stays.
TEST_F(WorkMemoryTest, PartsOfAMergeFailTogether) {
  constexpr uint64_t kMany = 300;
  options_.max_subcompactions = 4;
  options_.compaction_place = CompactionPlace::kComputeNode;
  options_.compaction_style = CompactionStyle::kLeveled;
  options_.idle_size_amplification_percent = 0;
  Open();
  const auto put_many = [this](char version) {
    for (uint64_t i = 0; i < kMany; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(kValueBytes, version)));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
  };
  put_many('a');
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  uint64_t failed = 0;
  for (int64_t made = 0; made < 4; ++made) {
    put_many('b');
    const FailingAllocationsAt failing("merge: tables", made);
    const Status merged = db_->CompactRange(nullptr, nullptr);
    EXPECT_EQ(merged.ok(), failing.failed() == 0) << merged.ToString();
    failed += failing.failed();
  }
  EXPECT_GE(failed, 1u);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_OK(db_->WaitForBackgroundWork());
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kMany);
  Reopen();
  for (uint64_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), std::string(kValueBytes, 'b'));
  }
}

class FlushMemoryTest : public WorkMemoryTest, public testing::WithParamInterface<const char*> {};

// Fails if what was acknowledged is lost, if the memtable is not flushed once there is memory, or
// if tables are kept that have never come to be in a version.
TEST_P(FlushMemoryTest, AMemtableStaysUntilItIsFlushed) {
  MergeByRequest();
  Open();
  ASSERT_OK(db_->WaitForBackgroundWork());
  const uint64_t used_before = node_.used_bytes();
  PutAll('a');
  {
    const FailingAllocationsAt failing(GetParam());
    ASSERT_OK(db_->Flush(at_once_));
    EXPECT_TRUE(Eventually([&failing] { return failing.failed() >= 5; }));
    EXPECT_EQ(Count(Ticker::kFlushes), 0u);
    ExpectAll('a');
  }
  EXPECT_TRUE(Eventually([this] { return Count(Ticker::kFlushes) == 1; }));
  ExpectAll('a');
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kEntries);
  EXPECT_LT(node_.used_bytes(), used_before + (uint64_t{8} << 20));
  Reopen();
  ExpectAll('a');
}

INSTANTIATE_TEST_SUITE_P(EveryMoment, FlushMemoryTest,
                         testing::Values("flush: tables", "manifest: to be put"),
                         [](const auto& place) { return NameOfPlace(place.param); });

// Fails if the publisher ends the process, publishes no more, or keeps the snapshot that it took.
TEST_F(WorkMemoryTest, WhatWasNotPublishedIsPublishedLater) {
  MergeByRequest();
  options_.publish_interval_ms = 5;
  Open();
  PutAll('a');
  {
    const FailingAllocationsAt failing("publication: to be written");
    PutAll('b');
    EXPECT_TRUE(Eventually([&failing] { return failing.failed() >= 3; }));
  }
  PutAll('c');
  options_.follow_interval_ms = 0;
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(options_, "work", &follower));
  EXPECT_TRUE(Eventually([&follower] {
    follower->TryCatchUp().PermitUncheckedError();
    return GetOr(follower.get(), NumberedKey(0)) == std::string(kValueBytes, 'c');
  }));
  ASSERT_OK(follower->Close());
  ASSERT_OK(db_->Flush(FlushOptions()));
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kEntries) << "is a snapshot still held?";
}

// Fails if a follower's threads end the process, or it does not catch up later.
TEST_F(WorkMemoryTest, AFollowerCatchesUpOnceThereIsSome) {
  options_.publish_interval_ms = 5;
  options_.follow_interval_ms = 5;
  Open();
  PutAll('a');
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(options_, "work", &follower));
  {
    const FailingAllocationsAt failing("follower");
    PutAll('b');
    EXPECT_TRUE(Eventually([&failing] { return failing.failed() >= 2; }));
    EXPECT_TRUE(follower->TryCatchUp().IsIOError());
  }
  EXPECT_TRUE(Eventually([&follower] {
    return GetOr(follower.get(), NumberedKey(kEntries - 1)) == std::string(kValueBytes, 'b');
  }));
  EXPECT_OK(follower->Close());
}

// Fails if a call for whose request or answer there is no memory ends the process, leaves its
// caller among those that wait, or is the last one.
TEST_F(WorkMemoryTest, CallsGoOnOnceThereIsSome) {
  TestNode::Config config;
  config.grace = std::chrono::seconds(60);  // A session may be without its connection for a while.
  TestNode patient(config);
  options_ = patient.With(TinyOptions(), "tcp");
  Open();
  for (const char* place : {"call", "reply"}) {
    SCOPED_TRACE(place);
    {
      const FailingAllocationsAt failing(place);
      // The answer that was waited for before still comes.
      EXPECT_TRUE(Eventually([this] {
        PutAll('a');
        return db_->Flush(FlushOptions()).IsIOError();
      }));
      EXPECT_GE(failing.failed(), 1u);
    }
    EXPECT_OK(db_->Flush(FlushOptions()));
    ExpectAll('a');
  }
  TearDown();  // Before its node.
}

TEST_F(WorkMemoryTest, ADatabaseThatCannotBeOpenedSaysWhy) {
  const FailingAllocationsAt failing("open");
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options_, "work", &db);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_NE(status.ToString().find("memory"), std::string::npos) << status.ToString();
  EXPECT_TRUE(db == nullptr);
}

}  // namespace
}  // namespace dlsm
