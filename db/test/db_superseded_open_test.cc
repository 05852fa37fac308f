// Databases that are taken over while they are being opened: what becomes of who was held up there,
// and of who has taken over; or whose parts have gone by then.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/nodes/memory_node_link.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

std::function<void()> Once(std::function<void()> action) {
  return [first = std::move(action), done = std::make_shared<bool>(false)] {
    if (!std::exchange(*done, true)) first();
  };
}

// A database of one shard with tables on two memory nodes, of which the first is the home.
class SupersededOpenTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr uint64_t kKeys = 2000;

  SupersededOpenTest() : nodes_(2, GetParam()) {}

  void SetUp() override {
    options_ = nodes_.With(TinyOptions());
    options_.placement = TablePlacement::kRoundRobin;
    options_.level0_file_num_compaction_trigger = 1000;  // No merges: flushes go to both of them.
    options_.level0_stop_writes_trigger = 2000;
    ASSERT_OK(OpenOrDie(options_, "db")->Close());
    options_.take_over = true;
  }

  // Who opens the database with these calls `meanwhile` when it is the owner at the home, before
  // it asks the other memory node for the database.
  Options HeldUpBeforeItAsks(std::function<void()> meanwhile) {
    const uint16_t elsewhere = nodes_[1].server().port();
    return Over(std::make_shared<WatchedConnector>(
        [elsewhere, once = Once(std::move(meanwhile))](uint16_t port, Method method, const Slice&) {
          if (port == elsewhere && method == Method::kOpenDatabase) once();
          return Status::OK();
        }));
  }
  // The same when the home has said that it still is the owner there, before it puts its word into
  // the other memory node's header. It is this thread that opens the database.
  Options HeldUpBeforeItSwaps(std::function<void()> meanwhile) {
    return Over(std::make_shared<WatchedConnector>(
        [](uint16_t, Method, const Slice&) { return Status::OK(); }, std::function<bool()>(),
        [opener = std::this_thread::get_id(), once = Once(std::move(meanwhile))](
            Method method, const WatchedConnector::Send& send, std::string* reply,
            Deadline deadline) {
          const Status answered = send(reply, deadline);
          // Heartbeats of another thread keep sessions, at any time.
          if (method == Method::kHeartbeat && std::this_thread::get_id() == opener) once();
          return answered;
        }));
  }

  // With `slow`, which opens successor_ meanwhile.
  void ExpectGivesUp(const Options& slow) {
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(slow, "db", &db);
    EXPECT_TRUE(opened.IsIOFenced()) << opened.ToString();
    EXPECT_NE(opened.ToString().find("another has taken this database over while it was opened"),
              std::string::npos)
        << opened.ToString();
    ASSERT_TRUE(successor_ != nullptr);
    EXPECT_EQ(nodes_[0].server().node().take_overs(), 1u);
  }

  // Fills the database, which gets tables on both memory nodes, and closes and opens it again.
  void ExpectOwns(std::unique_ptr<DB> db) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), std::string(200, 'v')));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    EXPECT_GT(nodes_[1].used_bytes(), uint64_t{64} << 10) << "it has tables there";
    EXPECT_OK(db->Close());
    ASSERT_OK(DB::Open(options_, "db", &db));
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), std::string(200, 'v')) << i;
    }
    CloseAndDestroy(&db, options_, "db");
    for (size_t i = 0; i < nodes_.size(); ++i) {
      EXPECT_OK(nodes_[i].server().node().databases().CheckInvariants());
    }
  }

  TestNodes nodes_;
  Options options_;
  std::unique_ptr<DB> successor_;

 private:
  Options Over(const std::shared_ptr<WatchedConnector>& connector) const {
    if (std::string(GetParam()) == "shm") connector->GoOver(FabricKind::kShm);
    Options options = options_;
    options.node_connector = connector;
    return options;
  }
};

// Who opens a database is held up between the home and the other memory node; meanwhile another one
// takes both over. Fails if the first one then takes the other memory node from it: neither of
// them would be the owner of the whole database, and both handles would end.
TEST_P(SupersededOpenTest, TakesNothingFromItsSuccessor) {
  ASSERT_NO_FATAL_FAILURE(
      ExpectGivesUp(HeldUpBeforeItAsks([this] { successor_ = OpenOrDie(options_, "db"); })));
  ASSERT_NO_FATAL_FAILURE(ExpectOwns(std::move(successor_)));
}

// The same at the last moment: what it was offered at the other memory node, and what the home has
// said of it, are of the time before. Fails also if it is not told why that was in vain.
TEST_P(SupersededOpenTest, TakesNothingThatWasOfferedBefore) {
  ASSERT_NO_FATAL_FAILURE(
      ExpectGivesUp(HeldUpBeforeItSwaps([this] { successor_ = OpenOrDie(options_, "db"); })));
  ASSERT_NO_FATAL_FAILURE(ExpectOwns(std::move(successor_)));
}

// The same, but it goes on when its successor has been offered a word at the other memory node in
// the place of the same one, and is the first to put its own there. Fails if the successor, which
// is the owner at the home, gives up as well: nobody would have the database then.
TEST_P(SupersededOpenTest, ASuccessorThatIsOvertakenElsewhereTriesAgain) {
  std::atomic<bool> slow_swaps_next{false};
  std::atomic<bool> slow_goes_on{false};
  Status slow_opened;
  std::thread slow([&] {
    const Options options = HeldUpBeforeItSwaps([&] {
      slow_swaps_next = true;
      EXPECT_TRUE(Eventually([&] { return slow_goes_on.load(); }));
    });
    std::unique_ptr<DB> handle;
    slow_opened = DB::Open(options, "db", &handle);
  });
  EXPECT_TRUE(Eventually([&] { return slow_swaps_next.load(); }));
  const Options options = HeldUpBeforeItSwaps([&] {
    slow_goes_on = true;
    slow.join();
  });
  std::unique_ptr<DB> db;
  const Status opened = DB::Open(options, "db", &db);
  if (slow.joinable()) slow.join();
  EXPECT_TRUE(slow_opened.IsIOError()) << slow_opened.ToString();
  ASSERT_OK(opened);
  ASSERT_NO_FATAL_FAILURE(ExpectOwns(std::move(db)));
}

// The home is so slow to say who owns the database that the session with a new part elsewhere ends
// meanwhile, and another database gets the memory of that part, which over shm is still in reach.
// Fails if the word is put there all the same: it would be the other database's.
TEST(LateOpenTest, NoWordIsPutWhereThePartHasGone) {
  constexpr auto kPatience = std::chrono::seconds(10);
  TestNode::Config elsewhere;
  elsewhere.lease = std::chrono::seconds(1);
  TestNodes nodes(std::vector<TestNode::Config>{TestNode::Config(), elsewhere}, "shm");
  Options options = nodes.With(TinyOptions());
  ASSERT_OK(OpenOrDie(options, "db")->Close());
  ASSERT_EQ(nodes[1].used_bytes(), 0u);
  options.placement = TablePlacement::kRoundRobin;

  std::unique_ptr<NodeConnection> neighbour;
  HeartbeatRequest heartbeat;
  const auto open_neighbour = [&] {
    EXPECT_TRUE(Eventually([&] { return nodes[1].used_bytes() == 0; })) << "the part";
    ASSERT_OK(ConnectToMemoryNode(options, nodes[1].address(), &neighbour));
    OpenDatabaseRequest request;
    request.name = "neighbour";
    request.create_if_missing = true;
    std::string bytes;
    ASSERT_OK(neighbour->rpc().Call(Method::kOpenDatabase, request.Encode(), &bytes,
                                    Deadline::In(kPatience)));
    OpenDatabaseReply opened;
    ASSERT_OK(opened.Decode(bytes));
    heartbeat.session = opened.session;
    heartbeat.publications_from = HeartbeatRequest::kPublicationsUnknown;
  };
  const auto connector = std::make_shared<WatchedConnector>(
      [](uint16_t, Method, const Slice&) { return Status::OK(); }, std::function<bool()>(),
      [opener = std::this_thread::get_id(), once = Once(open_neighbour)](
          Method method, const WatchedConnector::Send& send, std::string* reply,
          Deadline deadline) {
        const Status answered = send(reply, deadline);
        if (method == Method::kHeartbeat && std::this_thread::get_id() == opener) once();
        return answered;
      });
  connector->GoOver(FabricKind::kShm);
  Options slow = options;
  slow.node_connector = connector;
  std::unique_ptr<DB> db;
  const Status late = DB::Open(slow, "db", &db);
  EXPECT_TRUE(late.IsTimedOut()) << late.ToString();
  ASSERT_TRUE(neighbour != nullptr);
  std::string answer;
  const Status owned = neighbour->rpc().Call(Method::kHeartbeat, heartbeat.Encode(), &answer,
                                             Deadline::In(kPatience));
  EXPECT_FALSE(owned.IsIOFenced()) << owned.ToString();
}

INSTANTIATE_TEST_SUITE_P(EveryWay, SupersededOpenTest, testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace dlsm
