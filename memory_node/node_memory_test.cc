// A memory node whose process has no memory beside that which it serves: whoever asks is told, or
// asks again; nothing of it ends, and nothing is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/access_revoker.h"
#include "memory_node/memory_node_testing.h"
#include "memory_node/table_client_testing.h"
#include "port/failing_allocations_testing.h"
#include "port/thread.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

using port::FailingAllocationsAt;
using testing::HasSubstr;

class NodeMemoryTest : public testing::Test {
 protected:
  static NodeServerOptions PatientOptions() {
    NodeServerOptions options = TestServer::SmallOptions();
    options.node.grace = std::chrono::seconds(60);  // Connections end here and there.
    return options;
  }

  Status Connect(std::chrono::seconds patience, std::unique_ptr<NodeConnection>* connection) {
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    options.client_name = "tester";
    return ConnectNode(server_.address(), options, Deadline::In(patience), connection);
  }
  void SetUp() override {
    std::unique_ptr<NodeConnection> connection;
    ASSERT_OK(Connect(std::chrono::seconds(30), &connection));
    tables_ = std::make_unique<TableClient>(std::move(connection));
    client_ = &tables_->client();
    ASSERT_OK(client_->Open("tests"));
  }
  void TearDown() override {
    EXPECT_OK(server_.node().databases().CheckInvariants());
    EXPECT_OK(client_->Close());
    const Status destroyed = client_->Destroy("tests");
    // What has no manifest goes with its owner.
    EXPECT_TRUE(destroyed.ok() || destroyed.IsNotFound()) << destroyed.ToString();
    EXPECT_EQ(server_.used_bytes(), 0u);
  }
  Status CallWithoutRequest(Method method) {
    std::string reply;
    return tables_->connection().rpc().Call(method, Slice(), &reply, TestDeadline());
  }
  MergeRequest SmallMerge() {
    MergeRequest request;
    request.runs = {{tables_->WriteTable(Numbers(0, 100, 1, "new"), 2)},
                    {tables_->WriteTable(Numbers(0, 100, 1, "old"), 1)}};
    return request;
  }

  TestServer server_{PatientOptions()};
  std::unique_ptr<TableClient> tables_;
  TestClient* client_ = nullptr;  // Of tables_.
};

void ExpectTold(const Status& status) {
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("memory node can have no more memory"));
}

// Fails if a call ends the memory node, is not answered, or has been carried out in part.
TEST_F(NodeMemoryTest, EachCallIsAnsweredWithAnError) {
  const RemoteSpan extent = client_->Grant(1000);
  const uint64_t used_before = server_.used_bytes();
  {
    const FailingAllocationsAt failing("memory node: call");
    ExpectTold(client_->Heartbeat());
    RemoteSpan another;
    ExpectTold(client_->Grant(1000, 1000, &another));
    ExpectTold(client_->Free({extent}));
    ExpectTold(client_->PutManifest(1, "manifest", {extent}));
    ExpectTold(client_->OpenReader({"tests"}));
    ExpectTold(client_->Destroy("another"));
    ExpectTold(client_->Close());
    ExpectTold(CallWithoutRequest(Method::kListDatabases));
    ExpectTold(CallWithoutRequest(Method::kNodeStatistics));
    EXPECT_EQ(failing.failed(), 9u);
  }
  EXPECT_EQ(server_.used_bytes(), used_before);
  EXPECT_OK(client_->Heartbeat());
  EXPECT_OK(client_->Free({extent}));
}

// Fails if a manifest that there was no memory to keep has left its version behind: then it could
// not be put again, and whoever opens the database would get the one before under its number.
TEST_F(NodeMemoryTest, AManifestThatCannotBeKeptCanBePutAgain) {
  const RemoteSpan extent = client_->Grant(1000);
  {
    const FailingAllocationsAt failing("memory node: manifest");
    ExpectTold(client_->PutManifest(1, "manifest", {extent}));
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_OK(client_->PutManifest(1, "manifest", {extent}));
  EXPECT_OK(client_->PutManifest(2, "empty", {}));
  EXPECT_OK(client_->Free({extent}));
}

// Fails if a merge for which there is no memory ends the memory node, is not answered, keeps its
// inputs, or counts as one that runs.
TEST_F(NodeMemoryTest, AMergeIsAnsweredWithAnError) {
  const MergeRequest request = SmallMerge();
  const uint64_t used_before = server_.used_bytes();
  MergeReply reply;
  uint64_t number = 0;
  for (const char* place : {"memory node: merge", "memory node: merging", "memory node: merged"}) {
    SCOPED_TRACE(place);
    MergeRequest numbered = request;
    ++number;
    numbered.number.own = number;
    numbered.number.answers.next = number + 1;
    numbered.number.answers.awaited = {number};
    {
      const FailingAllocationsAt failing(place);
      ExpectTold(client_->Merge(numbered, &reply));
      EXPECT_EQ(failing.failed(), 1u);
    }
    MergeAnswers lost;
    lost.next = number + 1;
    lost.lost = {number};
    EXPECT_OK(client_->Tell(lost));
    EXPECT_EQ(server_.used_bytes(), used_before);
    EXPECT_EQ(client_->Statistics().merges_running, 0u);
  }
  ASSERT_OK(client_->Merge(request, &reply));
  std::vector<RemoteSpan> to_free;
  for (const TableMeta& output : reply.outputs) to_free.push_back(output.image);
  for (const std::vector<TableMeta>& run : request.runs) to_free.push_back(run.front().image);
  EXPECT_OK(client_->Free(to_free));
}

// Fails if an answer that cannot be made is waited for until the deadline, or is the last one.
TEST_F(NodeMemoryTest, AnAnswerThatCannotBeMadeEndsItsConnection) {
  {
    const FailingAllocationsAt failing("memory node: reply");
    const Status status = client_->Heartbeat();
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_OK(client_->Heartbeat());
}

// Fails if the thread that accepts connections, or one that serves one, ends the memory node or
// never serves anybody again.
TEST_F(NodeMemoryTest, ClientsAreLetInOnceThereIsSome) {
  for (const char* place : {"memory node: accept", "memory node: serve"}) {
    SCOPED_TRACE(place);
    std::unique_ptr<NodeConnection> connection;
    {
      const FailingAllocationsAt failing(place);
      EXPECT_FALSE(Connect(std::chrono::seconds(1), &connection).ok());
      EXPECT_GE(failing.failed(), 1u);
    }
    EXPECT_OK(Connect(std::chrono::seconds(30), &connection));
    EXPECT_OK(client_->Heartbeat());
  }
}

// Fails if a fabric thread ends the memory node, or serves no connection any more.
TEST_F(NodeMemoryTest, DataConnectionsAreMadeAgainOnceThereIsSome) {
  std::string bytes = "some bytes";
  const RemoteSpan extent = client_->Grant(bytes.size());
  FabricConnection& fabric = tables_->connection().fabric();
  RegisteredBuffer buffer;
  ASSERT_OK(fabric.NewBuffer(bytes.size(), &buffer));
  const LocalSpan local = buffer.span().Sub(0, bytes.size());
  const auto write = [&](std::chrono::seconds patience) -> Status {
    std::unique_ptr<QueuePair> pair;
    Ticket ticket{};
    Status status = fabric.NewQueuePair(Deadline::In(patience), &pair);
    if (status.ok()) {
      status = pair->PostWrite(local, extent.Sub(0, bytes.size()), Purpose::kFlush, &ticket);
    }
    return status.ok() ? pair->Wait(ticket, Deadline::In(patience)) : status;
  };
  for (const char* place : {"tcp server: adopted", "tcp server: serve"}) {
    SCOPED_TRACE(place);
    {
      const FailingAllocationsAt failing(place);
      EXPECT_FALSE(write(std::chrono::seconds(2)).ok());
      EXPECT_GE(failing.failed(), 1u);
    }
    EXPECT_OK(write(std::chrono::seconds(30)));
  }
  EXPECT_OK(client_->Free({extent}));
}

// Fails if the housekeeper ends the memory node.
TEST_F(NodeMemoryTest, TheHouseIsKeptOnceThereIsSome) {
  {
    const FailingAllocationsAt failing("memory node: house");
    EXPECT_TRUE(Eventually([&failing] { return failing.failed() >= 2; }));
  }
  EXPECT_OK(client_->Heartbeat());
}

// Fails if a session that ends when its client's access cannot be taken away for want of memory
// keeps its database from being opened, or who closes it without an answer, for ever.
TEST(SessionEndMemoryTest, AccessIsTakenAwayOnceThereIsSome) {
  TestServer server;
  NodeConnectionOptions options;
  options.fabric.kind = FabricKind::kTcp;
  options.client_name = "tester";
  std::unique_ptr<NodeConnection> connection;
  ASSERT_OK(ConnectNode(server.address(), options, TestDeadline(), &connection));
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("tests"));
  std::atomic<bool> closed{false};
  port::Thread closer;
  {
    const FailingAllocationsAt failing("memory node: revoked");
    closer = port::Thread([&] {
      EXPECT_OK(client.Close());
      closed = true;
    });
    EXPECT_TRUE(Eventually([&failing] { return failing.failed() >= 2; }));
    EXPECT_FALSE(closed);
  }
  closer.join();
  EXPECT_EQ(server.used_bytes(), 0u);
}

// Fails if a close whose second half there is no memory for is answered by the error, and once more
// when the access has been taken away. Either may come first.
TEST(SessionEndMemoryTest, ACloseIsAnsweredOnce) {
  std::atomic<int> answers{0};
  TestServer server;
  MemoryNode& node = server.node();
  RpcPeer peer;
  peer.connection = 1000;
  peer.name = "tester";
  peer.data_token = "token";
  OpenDatabaseRequest open;
  open.name = "tests";
  open.create_if_missing = true;
  OpenDatabaseReply opened;
  node.Handle(peer, Method::kOpenDatabase, open.Encode(),
              [&opened](const Status& status, const std::string& reply) {
                EXPECT_OK(status);
                EXPECT_OK(opened.Decode(reply));
              });
  CloseDatabaseRequest close;
  close.session = opened.session;
  {
    // The first change fences what the client reaches, the second one ends that, or drops the
    // database.
    const FailingAllocationsAt failing("accounts: change", /*made=*/1);
    node.Handle(peer, Method::kCloseDatabase, close.Encode(),
                [&answers](const Status& status, const std::string&) {
                  if (!status.ok()) ExpectTold(status);
                  ++answers;
                });
    EXPECT_TRUE(Eventually([&node] { return node.revocations().pending == 0; }));
    EXPECT_GE(failing.failed(), 1u);
  }
  EXPECT_EQ(answers, 1);
}

// Fails if an access that could not be taken away for want of memory never is, or if its end, which
// could not be told of, is never told.
TEST(RevokerMemoryTest, ARevocationIsTriedUntilItsOutcomeIsTold) {
  std::atomic<int> cut_off{0};
  std::atomic<int> failures{0};
  std::atomic<int> untold{0};
  std::atomic<int> done{0};
  AccessRevoker revoker;
  revoker.SetCutOff([&cut_off](const std::string&) {
    ++cut_off;
    return Status::OK();
  });
  {
    const FailingAllocationsAt failing("memory node: revocation");
    revoker.Revoke({"token"}, [&](const Status& status) {
      if (!status.ok()) {
        ++failures;
      } else if (untold++ < 2) {
        throw std::bad_alloc();
      } else {
        ++done;
      }
    });
    EXPECT_TRUE(Eventually([&failures] { return failures >= 2; }));
    EXPECT_EQ(cut_off, 0);
  }
  EXPECT_TRUE(Eventually([&done] { return done == 1; }));
  EXPECT_EQ(cut_off, 1);
  EXPECT_EQ(untold, 3);
  EXPECT_TRUE(Eventually([&revoker] { return revoker.statistics().pending == 0; }));
}

}  // namespace
}  // namespace dlsm
