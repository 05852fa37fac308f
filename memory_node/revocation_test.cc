// What the old client of a session can still do once its memory belongs to another: nothing. Over
// each fabric whose access can be taken away; shm's cannot (doc/design.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "memory_node/memory_node_testing.h"
#include "port/mutex.h"
#include "util/eventually_testing.h"
#include "util/named_testing.h"
#include "util/rpc/messages/database_header.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr uint64_t kExtentBytes = uint64_t{1} << 20;
constexpr std::chrono::seconds kRevocationLease{10};
constexpr std::chrono::seconds kGrace{2};

// Writes the same bytes into the same place for as long as it lives, making a new queue pair
// whenever one has failed: a client that has not noticed that its time is over.
class Zombie {
 public:
  Zombie(FabricConnection* fabric, const RemoteSpan& extent, char byte)
      : fabric_(fabric), extent_(extent), bytes_(128 << 10, byte), thread_([this] { Run(); }) {}
  ~Zombie() {
    stop_ = true;
    thread_.join();
  }

  uint64_t writes() const { return writes_; }
  uint64_t failures() const { return failures_; }

 private:
  void Run() {
    std::unique_ptr<QueuePair> pair;
    while (!stop_) {
      if (pair == nullptr && !fabric_->NewQueuePair(TestDeadline(), &pair).ok()) {
        ++failures_;
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      const Status status = WriteAll(*pair);
      ++(status.ok() ? writes_ : failures_);
      if (!status.ok()) pair.reset();
    }
  }

  // With several writes under way at a time.
  Status WriteAll(QueuePair& pair) {
    Ticket ticket{};
    for (uint64_t offset = 0; offset < extent_.bytes; offset += bytes_.size()) {
      const LocalSpan from{bytes_.data(), bytes_.size(), 0};
      const Status posted =
          pair.PostWrite(from, extent_.Sub(offset, bytes_.size()), Purpose::kFlush, &ticket);
      if (!posted.ok()) return posted;
    }
    return pair.Wait(ticket, TestDeadline());
  }

  FabricConnection* const fabric_;
  const RemoteSpan extent_;
  std::string bytes_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> failures_{0};
  std::thread thread_;
};

class RevocationTest : public testing::TestWithParam<Named<FabricKind>> {
 protected:
  void SetUp() override {
    const Status usable = GetParam() == FabricKind::kVerbs ? CheckVerbsDevice({}) : Status::OK();
    if (!usable.ok()) GTEST_SKIP() << usable.ToString();
    NodeServerOptions options = TestServer::SmallOptions();
    // So whoever is granted memory next gets the same.
    options.bytes = kExtentBytes + 2 * kDatabaseHeaderBytes;
    options.fabric = GetParam();
    options.node.lease = kRevocationLease;
    options.node.grace = kGrace;
    options.node.clock = [this] {
      return DatabaseTableOptions::Clock::time_point(std::chrono::nanoseconds(now_.load()));
    };
    server_ = std::make_unique<TestServer>(options);
  }

  std::unique_ptr<NodeConnection> Connect() {
    std::unique_ptr<NodeConnection> connection;
    NodeConnectionOptions options;
    options.fabric.kind = GetParam();
    EXPECT_OK(ConnectNode(server_->address(), options, TestDeadline(), &connection));
    return connection;
  }
  MemoryNode& node() { return server_->node(); }

  // Opens another database, lets time pass until other sessions are over, and takes `extent` as
  // soon as it can be had.
  void TakeOver(TestClient& heir, const RemoteSpan& extent) {
    ASSERT_OK(heir.Open("heir"));
    now_ += std::chrono::nanoseconds(kRevocationLease * 2 / 3).count();
    ASSERT_OK(heir.Heartbeat());
    now_ += std::chrono::nanoseconds(kRevocationLease * 2 / 3).count();
    RemoteSpan granted;
    ASSERT_TRUE(Eventually([&] { return heir.Grant(extent.bytes, extent.bytes, &granted).ok(); }));
    ASSERT_EQ(granted.offset, extent.offset);
  }

  // Whether the memory keeps what its new owner writes into it, byte for byte, for a while.
  void ExpectMine(NodeConnection& connection, const RemoteSpan& extent) {
    std::unique_ptr<QueuePair> pair;
    ASSERT_OK(connection.fabric().NewQueuePair(TestDeadline(), &pair));
    std::string mine(extent.bytes, 'h');
    std::string read(extent.bytes, '\0');
    Ticket ticket{};
    ASSERT_OK(pair->PostWrite({mine.data(), mine.size(), 0}, extent, Purpose::kFlush, &ticket));
    ASSERT_OK(pair->Wait(ticket, TestDeadline()));
    for (int round = 0; round < 10; ++round) {
      std::fill(read.begin(), read.end(), '?');
      ASSERT_OK(pair->PostRead(extent, {read.data(), read.size(), 0}, Purpose::kRead, &ticket));
      ASSERT_OK(pair->Wait(ticket, TestDeadline()));
      ASSERT_TRUE(read == mine) << "others write into granted memory";
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  std::atomic<int64_t> now_{1};  // The memory node's clock, in nanoseconds.
  std::unique_ptr<TestServer> server_;
};

// Fails if a client whose lease has ended, and who does not know it, changes a byte of the memory
// after it was granted to another; over the connections that it has, or over new ones.
TEST_P(RevocationTest, TheLeaseEndsUnderAWriter) {
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("old"));
  ASSERT_OK(client.PutManifest(1, "m", {}));  // So its header stays.
  const RemoteSpan extent = client.Grant(kExtentBytes);
  const auto other = Connect();
  TestClient heir(&other->rpc());
  Zombie zombie(&connection->fabric(), extent, 'z');
  ASSERT_TRUE(Eventually([&] { return zombie.writes() > 0; }));
  ASSERT_NO_FATAL_FAILURE(TakeOver(heir, extent));
  ASSERT_NO_FATAL_FAILURE(ExpectMine(*other, extent));
  EXPECT_GT(zombie.failures(), 0u);
  EXPECT_TRUE(client.Heartbeat().IsAborted());
  EXPECT_OK(node().databases().CheckInvariants());
  EXPECT_EQ(node().quarantined_bytes(), 0u);
  // Its connection is of no further use for data, and says so.
  const Status again = client.Open("old");
  EXPECT_TRUE(again.IsIOError()) << again.ToString();
  EXPECT_THAT(again.ToString(), HasSubstr("connect again"));
}

// The same of a client that has lost its control connection, and comes back with its old token when
// its session has ended.
TEST_P(RevocationTest, AClientComesBackTooLate) {
  auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("old"));
  ASSERT_OK(client.PutManifest(1, "m", {}));  // So its header stays.
  const RemoteSpan extent = client.Grant(kExtentBytes);
  // The fabric outlives its control connection here: as if only that had been lost.
  const FabricPeer peer = connection->peer();
  FabricOptions options;
  options.kind = GetParam();
  std::unique_ptr<FabricConnection> fabric;
  ASSERT_OK(ConnectFabric(options, peer, TestDeadline(), &fabric));
  Zombie zombie(fabric.get(), extent, 'z');
  ASSERT_TRUE(Eventually([&] { return zombie.writes() > 0; }));
  connection.reset();
  const auto other = Connect();
  TestClient heir(&other->rpc());
  ASSERT_NO_FATAL_FAILURE(TakeOver(heir, extent));
  ASSERT_NO_FATAL_FAILURE(ExpectMine(*other, extent));
  EXPECT_GT(zombie.failures(), 0u);
}

// Fails if a close leaves the client's access in place, the memory unusable, or the database closed
// to the next.
TEST_P(RevocationTest, ACloseEndsTheAccess) {
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("old"));
  const RemoteSpan extent = client.Grant(kExtentBytes);
  ASSERT_OK(client.PutManifest(1, "m", {extent.Sub(0, 4096)}));
  Zombie zombie(&connection->fabric(), extent.Sub(512 << 10, 512 << 10), 'z');
  ASSERT_TRUE(Eventually([&] { return zombie.writes() > 0; }));
  ASSERT_OK(client.Close());
  EXPECT_EQ(node().Statistics().used_bytes, kDatabaseHeaderBytes + 4096);
  EXPECT_TRUE(Eventually([&] { return zombie.failures() > 0; }));
  const auto other = Connect();
  TestClient next(&other->rpc());
  EXPECT_OK(next.Open("old", /*create_if_missing=*/false));
}

// Fails if memory is used although the access to it was not taken away, if that is not told, or if
// it is never used again although it was in the end.
TEST_P(RevocationTest, UnconfirmedMemoryIsQuarantined) {
  port::Mutex mutex;
  Status answer = Status::IOError("the device is busy");
  node().revoker().SetCutOff([&](const std::string&) {
    const port::MutexLock lock(mutex);
    return answer;
  });
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("old"));
  const RemoteSpan extent = client.Grant(kExtentBytes);
  ASSERT_OK(client.PutManifest(1, "m", {extent.Sub(0, 4096)}));
  ASSERT_OK(client.Close());  // Its part is done.
  EXPECT_EQ(node().quarantined_bytes(), kDatabaseHeaderBytes + kExtentBytes);
  EXPECT_EQ(node().Statistics().used_bytes, kDatabaseHeaderBytes + kExtentBytes);
  EXPECT_GT(node().revocations().failures, 0u);
  EXPECT_EQ(node().revocations().pending, 1u);
  EXPECT_OK(node().databases().CheckInvariants());
  const auto other = Connect();
  TestClient next(&other->rpc());
  const Status refused = next.Open("old", /*create_if_missing=*/false);
  EXPECT_TRUE(refused.IsTimedOut()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("the device is busy"));
  {
    const port::MutexLock lock(mutex);
    answer = Status::OK();
  }
  EXPECT_TRUE(Eventually([&] { return next.Open("old", false).ok(); }));
  EXPECT_EQ(node().quarantined_bytes(), 0u);
  EXPECT_EQ(node().Statistics().used_bytes, kDatabaseHeaderBytes + 4096);
  // Who tried it again counts it a moment longer.
  EXPECT_TRUE(Eventually([&] { return node().revocations().pending == 0; }));
  EXPECT_OK(node().databases().CheckInvariants());
  // What the test lent goes before the server.
  server_.reset();
}

INSTANTIATE_TEST_SUITE_P(EveryFabric, RevocationTest,
                         testing::Values(Named<FabricKind>{"tcp", FabricKind::kTcp},
                                         Named<FabricKind>{"verbs", FabricKind::kVerbs}),
                         NameOf<FabricKind>);

}  // namespace
}  // namespace dlsm
