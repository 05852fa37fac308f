// A fabric in whose closed queue pairs writes may still be under way: nothing that they could land
// in may be given to others.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "db/test_database_testing.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What the test says, and what the memory node was asked to do.
struct LateWrites {
  std::atomic<bool> may_land{false};
  std::atomic<int> frees{0};
  std::atomic<int> closes{0};
};

class LateTcp final : public FabricConnection {
 public:
  LateTcp(std::shared_ptr<NodeConnection> inner, const LateWrites& late)
      : inner_(std::move(inner)), late_(late) {}

  FabricKind kind() const override { return inner_->fabric().kind(); }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override {
    return inner_->fabric().NewQueuePair(deadline, queue_pair);
  }
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return inner_->fabric().NewBuffer(bytes, buffer);
  }
  WireTotals Totals() const override { return inner_->fabric().Totals(); }
  bool MayStillLand() const override { return late_.may_land; }

 private:
  const std::shared_ptr<NodeConnection> inner_;
  const LateWrites& late_;
};

class CountingClient final : public RpcClient {
 public:
  CountingClient(std::shared_ptr<NodeConnection> inner, LateWrites& late)
      : inner_(std::move(inner)), late_(late) {}

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override {
    if (method == Method::kFree) ++late_.frees;
    if (method == Method::kCloseDatabase) ++late_.closes;
    return inner_->rpc().Call(method, request, reply, deadline);
  }
  Status lost() override { return inner_->rpc().lost(); }

 private:
  const std::shared_ptr<NodeConnection> inner_;
  LateWrites& late_;
};

class LateConnector final : public NodeConnector {
 public:
  explicit LateConnector(LateWrites& late) : late_(late) {}

  Status Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                 Deadline deadline, std::unique_ptr<NodeConnection>* connection) override {
    NodeConnectionOptions over_tcp = options;
    over_tcp.fabric.kind = FabricKind::kTcp;
    std::unique_ptr<NodeConnection> made;
    DLSM_RETURN_IF_ERROR(ConnectNode(address, over_tcp, deadline, &made));
    const std::shared_ptr<NodeConnection> inner = std::move(made);
    *connection =
        std::make_unique<NodeConnection>(std::make_unique<CountingClient>(inner, late_),
                                         inner->peer(), std::make_unique<LateTcp>(inner, late_));
    return Status::OK();
  }

 private:
  LateWrites& late_;
};

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
    options.node_connector = std::make_shared<LateConnector>(late_);
    options.operation_timeout_ms = 2000;
    return options;
  }
  // Tables, and tables that they replace.
  static void Rewrite(DB* db, const std::string& value) {
    for (int i = 0; i < 2000; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value + std::string(100, 'v')));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    db->CompactRange(nullptr, nullptr);
  }

  LateWrites late_;
  TestNode node_{NodeConfig()};
};

// Fails if what a merge has replaced goes back while a write may still land in it, or does not go
// back once none can.
TEST_F(LateWritesTest, FreesWait) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  Rewrite(db.get(), "old");
  ASSERT_OK(db->WaitForBackgroundWork());
  late_.may_land = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // Of one that was on its way.
  const int before = late_.frees;
  Rewrite(db.get(), "new");
  // What has been replaced goes back once no thread looks at it any more.
  Status waiting;
  const Deadline deadline = Deadline::In(std::chrono::seconds(30));
  while (waiting.ok() && !deadline.Passed()) waiting = db->WaitForBackgroundWork();
  EXPECT_TRUE(waiting.IsIOError()) << waiting.ToString();
  EXPECT_NE(waiting.ToString().find("could land"), std::string::npos) << waiting.ToString();
  EXPECT_EQ(late_.frees, before);
  EXPECT_EQ(GetOr(db.get(), NumberedKey(7)).substr(0, 3), "new");
  late_.may_land = false;
  ASSERT_OK(db->WaitForBackgroundWork());
  EXPECT_GT(late_.frees, before);
  EXPECT_OK(db->Close());
}

// Fails if a session is closed while a write may still land in what it had: all but a connection's
// last one are given to others at once. Its end takes the access away first, and loses nothing.
TEST_F(LateWritesTest, SessionsAreLeftToTheirEnd) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  Rewrite(db.get(), "kept");
  late_.may_land = true;
  const Status closed = db->Close();
  EXPECT_TRUE(closed.IsIOError()) << closed.ToString();
  EXPECT_NE(closed.ToString().find("left to the end of its lease"), std::string::npos)
      << closed.ToString();
  EXPECT_EQ(late_.closes, 0);
  db.reset();
  late_.may_land = false;
  db = OpenOrDie(TwoShards(), "db");
  EXPECT_EQ(GetOr(db.get(), NumberedKey(7)).substr(0, 4), "kept");
  EXPECT_OK(db->Close());
  EXPECT_EQ(late_.closes, 2);
}

// Fails if Close() gives up what it has to wait a moment for.
TEST_F(LateWritesTest, CloseWaitsAMoment) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  late_.may_land = true;
  std::thread lands([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    late_.may_land = false;
  });
  EXPECT_OK(db->Close());
  EXPECT_EQ(late_.closes, 2);
  lands.join();
}

}  // namespace
}  // namespace dlsm
