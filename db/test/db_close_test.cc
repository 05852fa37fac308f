// How a handle closes that has several memory nodes, or merges under way at one.
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
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

void AwaitOrFail(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(condition());
}

// A memory node does not answer when the handle begins to close, so others come first; and answers
// again while they are closed. Fails if its session is left to the handle's destruction then, which
// tells neither the memory node what was published last nor the caller what has gone wrong; or if
// any memory node is not told.
TEST(CloseTest, WhoAnswersAgainMeanwhileIsClosedLikeOthers) {
  TestNodes nodes(3, "tcp");
  const uint16_t second = nodes[1].server().port();
  const uint16_t third = nodes[2].server().port();
  std::atomic<bool> silent{false};
  std::atomic<int> lost{0};
  std::atomic<int> heard{0};
  std::atomic<int> closes{0};
  std::atomic<int> untold{0};
  Options options = nodes.With(TinyOptions());
  options.placement = TablePlacement::kRoundRobin;
  options.node_connector = std::make_shared<WatchedConnector>(
      [&](uint16_t port, Method method, const Slice& request) -> Status {
        if (port == second && method == Method::kHeartbeat) {
          ++(silent ? lost : heard);
          return silent ? Status::IOError("the test has lost this heartbeat") : Status::OK();
        }
        if (method != Method::kCloseDatabase) return Status::OK();
        CloseDatabaseRequest close;
        EXPECT_OK(close.Decode(request));
        ++closes;
        if (close.unnamed_from == HeartbeatRequest::kPublicationsUnknown) ++untold;
        if (port == third) {
          heard = 0;
          silent = false;
          // What has come of one is known when the next one is sent.
          AwaitOrFail([&] { return heard >= 2; });
        }
        return Status::OK();
      });
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  ASSERT_OK(db->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  silent = true;
  AwaitOrFail([&] { return lost >= 2; });
  EXPECT_OK(db->Close());
  EXPECT_EQ(closes, 3);
  EXPECT_EQ(untold, 0);
  db.reset();
  db = OpenOrDie(nodes.With(TinyOptions()), "db");
  EXPECT_EQ(GetOr(db.get(), "key"), "value");
  EXPECT_OK(db->Close());
}

// A memory node lets each call wait for its time-out. Fails if who closes waits for that for each
// shard: to put its manifest, to close its session, or until its heartbeat has come back.
TEST(CloseTest, AMemoryNodeThatHangsIsNotWaitedForByEachShard) {
  constexpr uint64_t kShards = 16;
  const TestNode node;
  std::atomic<bool> hangs{false};
  std::atomic<uint64_t> heartbeats{0};
  std::atomic<int> puts{0};
  std::atomic<int> closes{0};
  Options options = node.With(TinyOptions(), "tcp");
  options.write_buffer_size = size_t{1} << 20;
  for (uint64_t i = 1; i < kShards; ++i) options.shard_boundaries.push_back(NumberedKey(i));
  options.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) -> Status {
        if (!hangs) return Status::OK();
        if (method == Method::kHeartbeat) ++heartbeats;
        if (method == Method::kPutManifest) ++puts;
        if (method == Method::kCloseDatabase) ++closes;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        return Status::TimedOut("the memory node hangs");
      });
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < kShards; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "v"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  hangs = true;
  AwaitOrFail([&] { return heartbeats > 0; });  // Of the first; the others' come next.
  const Status closed = db->Close();
  EXPECT_TRUE(closed.IsTimedOut()) << closed.ToString();
  EXPECT_EQ(puts, 1);
  EXPECT_EQ(closes, 1);
  EXPECT_LT(heartbeats, kShards / 2);
  hangs = false;
  db.reset();
  db = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < kShards; ++i) EXPECT_EQ(GetOr(db.get(), NumberedKey(i)), "v");
  CloseAndDestroy(&db, options, "db");
}

// The memory node's budget for merges is a byte a second. Fails if who closes waits for a merge
// there until it is done: it gets on, and so is waited for.
TEST(CloseTest, AMergeThatTakesHoursIsGivenUp) {
  constexpr uint64_t kKeys = 2000;
  const std::string kBandwidth = "memory_node_compaction_bandwidth";
  TestNode node;
  Options options = node.With(TinyOptions(), "tcp");
  options.compaction_place = CompactionPlace::kMemoryNode;
  options.compaction_style = CompactionStyle::kLeveled;
  options.write_buffer_size = size_t{4} << 20;  // Two flushes, and with the second a merge is due.
  std::unique_ptr<DB> other = OpenOrDie(options, "other");
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  ASSERT_OK(other->SetOptions({{kBandwidth, "1"}}));
  for (const char* value : {"old", "new"}) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value));
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  const auto running = [&node] { return node.server().node().Statistics().merges_running; };
  ASSERT_TRUE(Eventually([&] { return running() > 0; }));
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    EXPECT_OK(db->Close());
    closed = true;
  });
  EXPECT_TRUE(Eventually([&] { return closed.load(); }));
  EXPECT_EQ(running(), 0u);
  EXPECT_OK(other->SetOptions({{kBandwidth, "0"}}));
  closing.join();
  db = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < kKeys; i += 7) ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), "new") << i;
  CloseAndDestroy(&db, options, "db");
  CloseAndDestroy(&other, options, "other");
  EXPECT_EQ(node.used_bytes(), 0u);
}

}  // namespace
}  // namespace dlsm
