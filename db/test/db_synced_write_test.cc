// Writes that are safe when they return, and ones that do not wait: WriteOptions.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/write_batch.h"
#include "db/test/held_flushes_testing.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

WriteOptions Synced() {
  WriteOptions options;
  options.sync = true;
  return options;
}

class SyncedWriteTest : public testing::Test {
 protected:
  Options TwoShards() const {
    Options options = node_.With(TinyOptions(), "tcp");
    options.shard_boundaries = {"m"};
    options.take_over = true;
    return options;
  }
  // What is left of the database if its handle gets no further: another one takes it over.
  std::unique_ptr<DB> AfterACrash() const { return OpenOrDie(TwoShards(), "synced"); }

  const TestNode node_;
};

// Fails if a put, a delete or a batch returns before it is in a table, or before what was written
// earlier is, be it into another shard.
TEST_F(SyncedWriteTest, OutlivesItsHandleAndSoDoesWhatWasBefore) {
  const auto crashed = OpenOrDie(TwoShards(), "synced");
  const auto expect = [&](const std::string& key, const std::string& value) {
    EXPECT_EQ(GetOr(AfterACrash().get(), key), value) << key;
  };
  ASSERT_OK(crashed->Put(WriteOptions(), "zebra", "of the other shard"));
  ASSERT_OK(crashed->Put(Synced(), "a", "1"));
  ASSERT_OK(crashed->Put(WriteOptions(), "b", "not flushed"));
  EXPECT_EQ(crashed->GetStatistics()->Get(Ticker::kSyncedWrites), 1u);
  {
    const auto heir = AfterACrash();
    EXPECT_EQ(GetOr(heir.get(), "a"), "1");
    EXPECT_EQ(GetOr(heir.get(), "zebra"), "of the other shard");
    EXPECT_EQ(GetOr(heir.get(), "b"), "(none)");
    ASSERT_OK(heir->Delete(Synced(), "a"));
    expect("a", "(none)");
  }
  WriteBatch batch;
  {
    const auto heir = AfterACrash();
    batch.Put("c", "3");
    batch.Put("x", "24");
    ASSERT_OK(heir->Write(Synced(), &batch));
    expect("c", "3");
    expect("x", "24");
  }
  const auto heir = AfterACrash();
  ASSERT_OK(heir->Put(WriteOptions(), "d", "4"));
  batch.Clear();
  ASSERT_OK(heir->Write(Synced(), &batch));  // Only flushes.
  expect("d", "4");
}

// Fails if a write that could not be flushed is said to be safe, or is hidden though it may be
// there after a crash.
TEST(SyncedWriteFailureTest, IsVisibleAndSaysThatItIsNotSafe) {
  const TestNode node;
  std::mutex mutex;
  Status answer;  // To manifests; under `mutex`.
  const auto answer_with = [&](const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    answer = status;
  };
  Options options = node.With(TinyOptions(), "tcp");
  options.write_stall_timeout_ms = 300;
  options.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
        const std::lock_guard<std::mutex> lock(mutex);
        return method == Method::kPutManifest ? answer : Status::OK();
      });
  const auto db = OpenOrDie(options, "synced");
  for (const Status& refusal : {Status::IOError("the test's"), Status::Busy("the test's")}) {
    answer_with(refusal);
    const std::string value = refusal.ToString();
    const Status failed = db->Put(Synced(), "key", value);
    // Busy would say that nothing was written.
    EXPECT_EQ(failed.code(), refusal.IsBusy() ? Status::Code::kTimedOut : refusal.code());
    EXPECT_NE(failed.ToString().find("written, but not flushed"), std::string::npos);
    EXPECT_NE(failed.ToString().find("the test's"), std::string::npos) << failed.ToString();
    EXPECT_EQ(GetOr(db.get(), "key"), value);
    answer_with(Status::OK());
    EXPECT_OK(db->Put(Synced(), "key", value));
  }
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("synced", options));
}

// Fails if threads that write at once have a flush each: all that come while as many memtables wait
// as may, or as are flushed side by side, share the next one.
TEST(SyncedWriteFlushesTest, AreSharedByWhoWritesMeanwhile) {
  struct Case {
    const char* shards;
    std::vector<std::string> boundaries;
    uint64_t flushes;
  };
  // Of one shard no more than one may wait for its flush here; of several, as many as fit.
  const Case cases[] = {{"one", {}, 2}, {"two", {"m"}, 3}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.shards);
    constexpr int kThreads = 8;
    Options options = TinyOptions();
    options.max_write_buffer_number = 2;
    options.shard_boundaries = each.boundaries;
    const auto db = OpenOrDie(options, "synced");
    const std::shared_ptr<Statistics> statistics = db->GetStatistics();
    std::vector<std::thread> writers;
    {
      const HeldFlushes held;
      writers.emplace_back([&db] { EXPECT_OK(db->Put(Synced(), "first", "1")); });
      EXPECT_TRUE(Eventually([] { return HeldFlushes::any(); }));
      for (int i = 0; i < kThreads; ++i) {
        writers.emplace_back([&db, i] { EXPECT_OK(db->Put(Synced(), std::to_string(i), "1")); });
      }
      EXPECT_TRUE(Eventually([&] {
        bool all = true;
        for (int i = 0; i < kThreads; ++i) all &= GetOr(db.get(), std::to_string(i)) == "1";
        return all;
      }));
    }
    for (std::thread& writer : writers) writer.join();
    ASSERT_OK(db->Close());
    EXPECT_GE(statistics->Get(Ticker::kFlushes), 2u);
    EXPECT_LE(statistics->Get(Ticker::kFlushes), each.flushes);
    EXPECT_OK(DestroyDB("synced", options));
  }
}

// Fails if a write that is not to wait does so while all memtables wait for flushes, or leaves
// anything behind, be it in another shard of its batch.
TEST(NoSlowdownTest, IsRefusedWhereItWouldWait) {
  Options options = TinyOptions();
  options.max_write_buffer_number = 2;
  options.shard_boundaries = {"m"};
  const auto db = OpenOrDie(options, "hurried");
  WriteOptions hurried;
  hurried.no_slowdown = true;
  const std::string value(1000, 'v');
  uint64_t written = 0;
  {
    const HeldFlushes held;
    Status refused;
    for (; refused.ok() && written < 10'000; ++written) {
      refused = db->Put(hurried, NumberedKey(written), value);
    }
    EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
    EXPECT_NE(refused.ToString().find("no_slowdown"), std::string::npos) << refused.ToString();
    EXPECT_EQ(GetOr(db.get(), NumberedKey(written - 1)), "(none)");
    WriteBatch batch;
    batch.Put("a", value);
    batch.Put("z", value);
    EXPECT_TRUE(db->Write(hurried, &batch).IsBusy());
    EXPECT_EQ(GetOr(db.get(), "z"), "(none)");
    EXPECT_OK(db->Put(hurried, "z", "the other shard has room"));
    EXPECT_EQ(db->GetStatistics()->Get(Ticker::kWritesNotWaiting), 2u);
  }
  EXPECT_OK(db->Put(WriteOptions(), NumberedKey(written), value));
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("hurried", options));
}

}  // namespace
}  // namespace dlsm
