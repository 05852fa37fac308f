// Flushes that somebody asks for.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/test/held_flushes_testing.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/eventually_testing.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

// To memory nodes that take tables, but while it `refuses` no manifest, so that nothing is flushed.
std::shared_ptr<NodeConnector> TakesNoManifest(const std::atomic<bool>& refuses) {
  return std::make_shared<WatchedConnector>(
      [&refuses](uint16_t, Method method, const Slice&) -> Status {
        const bool refused = refuses && method == Method::kPutManifest;
        return refused ? Status::IOError("the test takes no manifest") : Status::OK();
      });
}

// The only memtable that may wait does so. Fails if the flush that is asked for then is forgotten:
// the write before it would stay in the memtable until something else flushes it.
TEST(DbFlushTest, WhoDoesNotWaitIsNotForgotten) {
  Options options = TinyOptions();
  options.max_write_buffer_number = 2;
  const auto db = OpenOrDie(options, "flush");
  const auto flushes = [&db] { return db->GetStatistics()->Get(Ticker::kFlushes); };
  FlushOptions at_once;
  at_once.wait = false;
  {
    const HeldFlushes held;
    ASSERT_OK(db->Put(WriteOptions(), "first", "1"));
    ASSERT_OK(db->Flush(at_once));
    ASSERT_TRUE(Eventually([] { return HeldFlushes::any(); }));
    ASSERT_OK(db->Put(WriteOptions(), "second", "2"));
    ASSERT_OK(db->Flush(at_once));
    ASSERT_OK(db->Put(WriteOptions(), "third", "3"));  // Nobody has to wait for it.
    EXPECT_EQ(flushes(), 0u);
  }
  EXPECT_TRUE(Eventually([&flushes] { return flushes() >= 2; }));
  // What is written later is nobody's to flush.
  ASSERT_OK(db->Put(WriteOptions(), "fourth", "4"));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(flushes(), 2u);
  EXPECT_EQ(GetOr(db.get(), "second"), "2");
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("flush", options));
}

// A memory node lets each call wait for its time-out. Fails if what was tried of a shard in vain
// while others were waited for does not count at its turn: each would be tried as often as the
// first once more, one after the other.
TEST(DbFlushTest, AShardThatTimesOutIsNotTriedAllOverAtItsTurn) {
  constexpr const char* kShards[] = {"a", "b", "c", "d", "e", "f"};
  constexpr size_t kTriesOfOne = 3;
  const TestNode node;
  std::atomic<bool> hangs{false};
  std::atomic<size_t> tries{0};
  Options options = node.With(TinyOptions(), "tcp");
  options.shard_boundaries = {"b", "c", "d", "e", "f"};
  options.max_write_buffer_number = 8;
  // Nothing but flushes puts manifests.
  options.level0_file_num_compaction_trigger = 1000;
  options.level0_stop_writes_trigger = 2000;
  options.idle_size_amplification_percent = 0;
  options.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) -> Status {
        if (!hangs) return Status::OK();
        if (method == Method::kPutManifest) ++tries;
        std::this_thread::sleep_for(milliseconds(100));
        return Status::TimedOut("the memory node hangs");
      });
  const auto db = OpenOrDie(options, "flush");
  const auto put_in_each = [&](const char* value) {
    for (const char* shard : kShards) ASSERT_OK(db->Put(WriteOptions(), shard, value));
  };
  put_in_each("granted");  // With room for the next flush.
  ASSERT_OK(db->Flush(FlushOptions()));
  put_in_each("kept");
  hangs = true;
  const Status flushed = db->Flush(FlushOptions());
  hangs = false;
  EXPECT_TRUE(flushed.IsTimedOut()) << flushed.ToString();
  EXPECT_GE(tries, std::size(kShards) * kTriesOfOne);
  EXPECT_LE(tries, std::size(kShards) * 2 * kTriesOfOne);
  ASSERT_OK(db->Flush(FlushOptions()));
  for (const char* shard : kShards) EXPECT_EQ(GetOr(db.get(), shard), "kept");
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("flush", options));
}

// The memory node takes tables but no manifest, so the oldest of several memtables cannot be
// installed, and the others wait for it. Fails if their flushes count as ones that have come
// through: who wants to write, and who waits for a flush, would never be told, and wait for ever.
TEST(DbFlushTest, AFlushThatWaitsForOneThatFailsIsNoProgress) {
  const TestNode node;
  std::atomic<bool> refuses{false};
  Options options = node.With(TinyOptions(), "tcp");
  options.write_stall_timeout_ms = 1000;
  options.node_connector = TakesNoManifest(refuses);
  const auto db = OpenOrDie(options, "flush");
  refuses = true;
  Status written;
  Status flushed;
  std::atomic<bool> told{false};
  std::thread waiting([&] {
    const std::string value(1000, 'v');
    for (uint64_t i = 0; written.ok() && i < 10'000; ++i) {
      written = db->Put(WriteOptions(), NumberedKey(i), value);
    }
    flushed = db->Flush(FlushOptions());
    told = true;
  });
  EXPECT_TRUE(Eventually([&told] { return told.load(); }));
  refuses = false;
  waiting.join();
  EXPECT_TRUE(written.IsIOError()) << written.ToString();
  EXPECT_TRUE(flushed.IsIOError()) << flushed.ToString();
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(GetOr(db.get(), NumberedKey(0)), std::string(1000, 'v'));
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("flush", options));
}

// They come one after the other, each before there have been failures enough since the last came.
// Fails if each has it begin anew for all who wait: then none is told as long as others come.
TEST(DbFlushTest, WhoWaitsIsToldHoweverManyComeAfterHim) {
  constexpr size_t kWaitersMax = 100;
  const TestNode node;
  std::atomic<bool> refuses{false};
  Options options = node.With(TinyOptions(), "tcp");
  options.node_connector = TakesNoManifest(refuses);
  const auto db = OpenOrDie(options, "flush");
  ASSERT_OK(db->Put(WriteOptions(), "key", "value"));
  refuses = true;
  std::atomic<size_t> told{0};
  std::vector<std::thread> waiters;
  while (told == 0 && waiters.size() < kWaitersMax) {
    waiters.emplace_back([&db, &told] {
      const Status flushed = db->Flush(FlushOptions());
      EXPECT_TRUE(flushed.IsIOError()) << flushed.ToString();
      ++told;
    });
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_GT(told, 0u);
  for (std::thread& waiter : waiters) waiter.join();
  refuses = false;
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(GetOr(db.get(), "key"), "value");
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("flush", options));
}

}  // namespace
}  // namespace dlsm
