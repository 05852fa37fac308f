// The call that has memory in the memory node's files, and what the hello tells of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/memory_node_testing.h"
#include "port/mutex.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Answers when the test says so.
class HeldFiles {
 public:
  using Done = std::function<void(const Status&)>;

  void Persist(std::vector<RemoteSpan> spans, Done done) {
    const port::MutexLock lock(mutex_);
    asked_.push_back(std::move(spans));
    held_.push_back(std::move(done));
    changed_.SignalAll();
    if (answer_at_once_) AnswerLocked(status_);
  }
  void AnswerAtOnce(const Status& status) {
    const port::MutexLock lock(mutex_);
    answer_at_once_ = true;
    status_ = status;
    AnswerLocked(status);
  }
  std::vector<std::vector<RemoteSpan>> asked() {
    const port::MutexLock lock(mutex_);
    return asked_;
  }

 private:
  void AnswerLocked(const Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const Done& done : std::exchange(held_, {})) done(status);
  }

  port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  bool answer_at_once_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
  std::vector<std::vector<RemoteSpan>> asked_ GUARDED_BY(mutex_);
  std::vector<Done> held_ GUARDED_BY(mutex_);
};

class PersistTest : public testing::Test {
 protected:
  NodeServerOptions WithFiles() {
    NodeServerOptions options = TestServer::SmallOptions();
    options.node.has_files = true;
    options.node.persistence = PersistenceId{42};
    options.node.persist = [this](std::vector<RemoteSpan> spans, HeldFiles::Done done) {
      files_.Persist(std::move(spans), std::move(done));
    };
    return options;
  }
  std::unique_ptr<NodeConnection> Connect(TestServer& server) {
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    std::unique_ptr<NodeConnection> connection;
    EXPECT_OK(ConnectNode(server.address(), options, TestDeadline(), &connection));
    return connection;
  }
  static Status Persist(RpcClient& rpc, SessionId session, std::vector<RemoteSpan> spans,
                        Deadline deadline = TestDeadline()) {
    PersistRequest request;
    request.session = session;
    request.spans = std::move(spans);
    std::string reply;
    return rpc.Call(Method::kPersist, request.Encode(), &reply, deadline);
  }

  HeldFiles files_;
};

// Fails if spans do not reach the files as they are, or if the client is not told what there is.
TEST_F(PersistTest, ReachesTheFiles) {
  TestServer server(WithFiles());
  files_.AnswerAtOnce(Status::OK());
  const auto connection = Connect(server);
  EXPECT_TRUE(connection->peer().has_files);
  EXPECT_EQ(connection->peer().persistence, PersistenceId{42});
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  const std::vector<RemoteSpan> spans = {extent.Sub(0, 64), extent.Sub(100, 1)};
  EXPECT_OK(Persist(connection->rpc(), client.session(), spans));
  EXPECT_OK(Persist(connection->rpc(), client.session(), {}));
  EXPECT_THAT(files_.asked(), testing::ElementsAre(spans, std::vector<RemoteSpan>()));
}

// Fails if a memory node without files seems to persist something, or does not say what to do.
TEST_F(PersistTest, WithoutFilesIsRefused) {
  TestServer server;
  const auto connection = Connect(server);
  EXPECT_FALSE(connection->peer().has_files);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const Status refused = Persist(connection->rpc(), client.session(), {client.Grant(4096)});
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("memory node 1"));
  EXPECT_THAT(refused.ToString(), HasSubstr("--data_dir"));
  // Without files, memory persists as long as the contents do.
  const PersistenceId before = server.node().persistence();
  server.RestartWithContents();
  EXPECT_EQ(server.node().persistence(), before);
  server.Restart();
  EXPECT_NE(server.node().persistence(), before);
}

// Fails if somebody without a session, or with any span, gets as far as the files.
TEST_F(PersistTest, OnlyAnOwnersSpansOfThisMemory) {
  TestServer server(WithFiles());
  files_.AnswerAtOnce(Status::OK());
  const auto connection = Connect(server);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  const Status stranger = Persist(connection->rpc(), SessionId{12345}, {extent});
  EXPECT_TRUE(stranger.IsIOError()) << stranger.ToString();
  RemoteSpan other_node = extent;
  other_node.node = NodeId{2};
  RemoteSpan other_region = extent;
  other_region.region = RegionId{77};
  RemoteSpan behind = extent;
  behind.offset = server.node().region().info().bytes - 10;
  behind.bytes = 11;
  for (const RemoteSpan& span : {other_node, other_region, behind}) {
    const Status refused = Persist(connection->rpc(), client.session(), {extent, span});
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  }
  EXPECT_TRUE(files_.asked().empty());
}

// Fails if files that have failed are believed when they are tried again.
TEST_F(PersistTest, AFailureIsFinal) {
  TestServer server(WithFiles());
  files_.AnswerAtOnce(Status::IOError("the disk is broken"));
  const auto connection = Connect(server);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  for (int i = 0; i < 3; ++i) {
    const Status failed = Persist(connection->rpc(), client.session(), {extent});
    EXPECT_TRUE(failed.IsAborted()) << failed.ToString();
    EXPECT_THAT(failed.ToString(), HasSubstr("the disk is broken"));
    files_.AnswerAtOnce(Status::OK());
  }
  EXPECT_EQ(files_.asked().size(), 1u);
}

// Fails if a call that waits for the disk keeps others waiting, or comes to no end.
TEST_F(PersistTest, OthersGoOnWhileOneWaits) {
  TestServer server(WithFiles());
  const auto connection = Connect(server);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  const Status late =
      Persist(connection->rpc(), client.session(), {extent}, Deadline::In(milliseconds(50)));
  EXPECT_TRUE(late.IsTimedOut()) << late.ToString();
  EXPECT_OK(client.Heartbeat());
  files_.AnswerAtOnce(Status::OK());
  EXPECT_OK(Persist(connection->rpc(), client.session(), {extent}));
}

}  // namespace
}  // namespace dlsm
