// How a handle with several memory nodes closes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "db/test_database_testing.h"
#include "db/watched_calls_testing.h"
#include "util/rpc/messages.h"

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

}  // namespace
}  // namespace dlsm
