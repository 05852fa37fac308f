// Merges on a memory node whose answers the client does not get: what they make does not stay, and
// the database goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/eventually_testing.h"
#include "util/named_testing.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

enum class Loss {
  kNone,
  kAnswer,    // The merge is carried out, and its answer gets lost.
  kPatience,  // It has hardly begun when it is given up.
};

class LostMergeTest : public testing::TestWithParam<Named<Loss>> {
 protected:
  static constexpr uint64_t kKeys = 2000;
  // More than the database takes at rest, with its grants and its reserve.
  static constexpr uint64_t kAtRestMax = uint64_t{6} << 20;

  Options LossyOptions() {
    Options options = node_.With(TinyOptions(), "tcp");
    options.compaction_place = CompactionPlace::kMemoryNode;
    options.compaction_style = CompactionStyle::kLeveled;
    // Nothing is merged before the test wants it.
    options.level0_file_num_compaction_trigger = 500;
    options.level0_stop_writes_trigger = 1000;
    options.node_connector = std::make_shared<WatchedConnector>(
        [](uint16_t, Method, const Slice&) { return Status::OK(); },
        /*may_still_land=*/std::function<bool()>(),
        [this](Method method, const WatchedConnector::Send& send, std::string* reply,
               Deadline deadline) {
          const Loss loss = method == Method::kMerge ? loss_.load() : Loss::kNone;
          if (loss == Loss::kNone) return send(reply, deadline);
          const bool given_up = loss == Loss::kPatience;
          const Status status =
              send(reply, given_up ? Deadline::In(std::chrono::milliseconds(1)) : deadline);
          reply->clear();
          if (status.ok()) return Status::IOError("the test has lost this answer");
          return status;
        });
    return options;
  }

  // What merges have written there without this handle's knowing.
  uint64_t WrittenInVain(DB* db) {
    const uint64_t written = node_.server().node().Statistics().merge_bytes_written;
    const uint64_t known = db->GetStatistics()->Get(Ticker::kMergeBytesWritten);
    return written > known ? written - known : 0;
  }

  std::atomic<Loss> loss_{Loss::kNone};
  TestNode node_;
};

// Fails if merges whose answers get lost leave what they have made to the session: the memory node
// would fill up in the end.
TEST_P(LostMergeTest, WhatTheyHaveMadeIsGivenBack) {
  const Options options = LossyOptions();
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  const std::string value(300, 'v');
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value + std::to_string(round)));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  const auto merges = [&db] { return db->GetStatistics()->Get(Ticker::kMergesRemote); };
  ASSERT_EQ(merges(), 0u);
  loss_ = GetParam();
  const auto lost_by = Clock::now() + std::chrono::seconds(120);
  while (WrittenInVain(db.get()) < 4 * kAtRestMax) {
    ASSERT_LT(Clock::now(), lost_by) << WrittenInVain(db.get()) << " bytes written";
    EXPECT_FALSE(db->CompactRange(nullptr, nullptr).ok());
  }
  ASSERT_EQ(merges(), 0u);
  loss_ = Loss::kNone;
  // The memory node may be busy for a while yet with what was given up.
  const auto merged_by = Clock::now() + std::chrono::seconds(60);
  while (merges() == 0 && Clock::now() < merged_by) {
    db->CompactRange(nullptr, nullptr).PermitUncheckedError();
  }
  ASSERT_GT(merges(), 0u);
  ASSERT_OK(db->WaitForBackgroundWork());
  // A heartbeat tells of them.
  const auto told_by = Clock::now() + std::chrono::seconds(30);
  while (node_.used_bytes() > kAtRestMax && Clock::now() < told_by) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(node_.used_bytes(), kAtRestMax);
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
  for (uint64_t i = 0; i < kKeys; i += 7) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), value + "1") << i;
  }
  ASSERT_OK(db->Close());
  db = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < kKeys; i += 7) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), value + "1") << i;
  }
  CloseAndDestroy(&db, options, "db");
  EXPECT_EQ(node_.used_bytes(), 0u);
}

// A merge's answer is lost, and the heartbeat that tells so is answered by the session's end. Fails
// if the merge is told again and again: it and all later ones, which fail as well, would be
// counted until none is sent any more, and who waits for merges would not hear why.
TEST(LostMergesOfAnEndedSessionTest, AreToldNoMore) {
  std::atomic<bool> ended{false};
  std::atomic<int> told_again{0};
  std::atomic<int> told_nothing{0};
  const TestNode node;
  Options options = node.With(TinyOptions(), "tcp");
  options.compaction_place = CompactionPlace::kMemoryNode;
  options.compaction_style = CompactionStyle::kLeveled;
  options.max_subcompactions = 1;
  // One merge, which the test asks for.
  options.level0_file_num_compaction_trigger = 500;
  options.level0_stop_writes_trigger = 1000;
  options.node_connector = std::make_shared<WatchedConnector>(
      [&](uint16_t, Method method, const Slice& request) -> Status {
        if (method == Method::kMerge) return Status::IOError("the test has lost this merge");
        if (method != Method::kHeartbeat) return Status::OK();
        HeartbeatRequest beat;
        EXPECT_OK(beat.Decode(request));
        if (ended) {
          ++(beat.answers.lost.empty() ? told_nothing : told_again);
        } else if (beat.answers.lost.empty()) {
          return Status::OK();
        }
        ended = true;
        return Status::Aborted("the test has ended the session");
      });
  const std::unique_ptr<DB> db = OpenOrDie(options, "db");
  for (const char* value : {"old", "new"}) {
    ASSERT_OK(db->Put(WriteOptions(), "key", value));
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  EXPECT_FALSE(db->CompactRange(nullptr, nullptr).ok());
  EXPECT_TRUE(Eventually([&] { return told_nothing + told_again > 0; }));
  EXPECT_EQ(told_again, 0);
  const std::string read = GetOr(db.get(), "key");
  EXPECT_NE(read.find("the test has ended the session"), std::string::npos) << read;
  EXPECT_FALSE(db->Close().ok()) << "it is told that its session has ended";
}

// A handle that has lost its session, and publishes often. Fails if what it has left is flushed
// anew, in vain and with a line in the log, whenever somebody asks for that, until it is closed.
TEST(LostMergesOfAnEndedSessionTest, IsNotWhatFlushesAreTriedForAgainAndAgain) {
  std::atomic<bool> ended{false};
  const TestNode node;
  Options options = node.With(TinyOptions(), "tcp");
  options.publish_interval_ms = 5;
  options.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) -> Status {
        const bool told = ended && (method == Method::kHeartbeat || method == Method::kPutManifest);
        return told ? Status::Aborted("the test has ended the session") : Status::OK();
      });
  const std::unique_ptr<DB> db = OpenOrDie(options, "db");
  ended = true;
  EXPECT_TRUE(Eventually([&] { return !db->Put(WriteOptions(), "key", "value").ok(); }));
  const auto retries = [&db] { return db->GetStatistics()->Get(Ticker::kRetries); };
  const uint64_t before = retries();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LE(retries() - before, 10u);
  EXPECT_FALSE(db->Close().ok()) << "it is told that its session has ended";
}

INSTANTIATE_TEST_SUITE_P(EveryLoss, LostMergeTest,
                         testing::Values(Named<Loss>{"OfTheAnswer", Loss::kAnswer},
                                         Named<Loss>{"OfPatience", Loss::kPatience}),
                         NameOf<Loss>);

}  // namespace
}  // namespace dlsm
