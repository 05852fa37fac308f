// A fabric in whose closed queue pairs writes may still be under way: nothing that they could land
// in may be given to others.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"

namespace dlsm {
namespace {

class LateWritesTest : public testing::Test {
 protected:
  static TestNode::Config NodeConfig() {
    TestNode::Config config;
    config.grace = std::chrono::milliseconds(100);
    return config;
  }

  // Two sessions at the memory node.
  Options TwoShards() {
    Options options = node_.With(TinyOptions(), "tcp");
    options.shard_boundaries = {NumberedKey(1000)};
    options.node_connector = std::make_shared<WatchedConnector>(
        [this](uint16_t, Method method, const Slice&) {
          if (method == Method::kFree) ++frees_;
          if (method == Method::kCloseDatabase) ++closes_;
          return Status::OK();
        },
        [this] { return may_land_.load(); });
    options.operation_timeout_ms = 2000;
    return options;
  }
  // Tables, and tables that they replace.
  static void Rewrite(DB* db, const std::string& value) {
    for (int i = 0; i < 2000; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value + std::string(100, 'v')));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
  }

  std::atomic<bool> may_land_{false};
  // What the memory node was asked to do.
  std::atomic<int> frees_{0};
  std::atomic<int> closes_{0};
  TestNode node_{NodeConfig()};
};

// Fails if what a merge has replaced goes back while a write may still land in it, or does not go
// back once none can.
TEST_F(LateWritesTest, FreesWait) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  Rewrite(db.get(), "old");
  ASSERT_OK(db->WaitForBackgroundWork());
  may_land_ = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // Of one that was on its way.
  const int before = frees_;
  Rewrite(db.get(), "new");
  // What has been replaced goes back once no thread looks at it any more.
  Status waiting;
  const Deadline deadline = Deadline::In(std::chrono::seconds(30));
  while (waiting.ok() && !deadline.Passed()) waiting = db->WaitForBackgroundWork();
  EXPECT_TRUE(waiting.IsIOError()) << waiting.ToString();
  EXPECT_NE(waiting.ToString().find("could land"), std::string::npos) << waiting.ToString();
  EXPECT_EQ(frees_, before);
  EXPECT_EQ(GetOr(db.get(), NumberedKey(7)).substr(0, 3), "new");
  may_land_ = false;
  ASSERT_OK(db->WaitForBackgroundWork());
  EXPECT_GT(frees_, before);
  EXPECT_OK(db->Close());
}

// Fails if a session is closed while a write may still land in what it had: all but a connection's
// last one are given to others at once. Its end takes the access away first, and loses nothing.
TEST_F(LateWritesTest, SessionsAreLeftToTheirEnd) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  Rewrite(db.get(), "kept");
  may_land_ = true;
  const Status closed = db->Close();
  EXPECT_TRUE(closed.IsIOError()) << closed.ToString();
  EXPECT_NE(closed.ToString().find("left to the end of its lease"), std::string::npos)
      << closed.ToString();
  EXPECT_EQ(closes_, 0);
  db.reset();
  may_land_ = false;
  db = OpenOrDie(TwoShards(), "db");
  EXPECT_EQ(GetOr(db.get(), NumberedKey(7)).substr(0, 4), "kept");
  EXPECT_OK(db->Close());
  EXPECT_EQ(closes_, 2);
}

// Fails if Close() gives up what it has to wait a moment for.
TEST_F(LateWritesTest, CloseWaitsAMoment) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  may_land_ = true;
  std::thread lands([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    may_land_ = false;
  });
  EXPECT_OK(db->Close());
  EXPECT_EQ(closes_, 2);
  lands.join();
}

}  // namespace
}  // namespace dlsm
