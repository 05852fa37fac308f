// Memory nodes that are started again with their directory, as their clients see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "memory_node/memory_node_testing.h"
#include "memory_node/store/accounts_file.h"
#include "util/eventually_testing.h"
#include "util/named_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class StoredNodeTest : public testing::TestWithParam<Named<FabricKind>> {
 protected:
  StoredNodeTest() {
    options_ = TestServer::SmallOptions();
    options_.data_dir = temporary_ / "data";
    options_.fabric = GetParam();
    Start();
  }

  void Start() {
    ASSERT_OK(NodeServer::Start(options_, &server_));
    options_.port = server_->port();
  }
  void Restart() {
    server_.reset();
    Start();
  }
  // Bytes that were not synchronised are there all the same, but nobody may believe that.
  void LosePower() {
    server_.reset();
    std::unique_ptr<AccountsFile> accounts;
    ASSERT_OK(AccountsFile::Open(options_.data_dir + "/accounts.db", AccountsFile::Mode::kReadWrite,
                                 &accounts));
    StoredRows rows;
    ASSERT_OK(accounts->Load(&rows));
    StoredContents contents;
    ASSERT_OK(StoredContents::Decode(rows.at({StoredKind::kContents, 0}), &contents));
    contents.machine_boot = "another";
    StoredChanges changes;
    changes.written.emplace_back(StoredKey{StoredKind::kContents, 0}, contents.Encode());
    ASSERT_OK(accounts->Write(changes, /*persist=*/true));
    accounts.reset();
    Start();
  }
  std::unique_ptr<NodeConnection> Connect() {
    NodeConnectionOptions options;
    options.fabric.kind = GetParam();
    options.client_name = "tester";
    std::unique_ptr<NodeConnection> connection;
    EXPECT_OK(
        ConnectNode({options_.bind_address, options_.port}, options, TestDeadline(), &connection));
    return connection;
  }
  // A memory node that is started again cannot be called for a moment.
  static Status CallAgain(const std::function<Status()>& call) {
    Status status;
    for (int attempt = 0; attempt < 20; ++attempt) {
      status = call();
      if (status.ok()) return status;
    }
    return status;
  }
  static Status Transfer(NodeConnection& connection, const RemoteSpan& span, std::string* bytes,
                         bool write) {
    std::unique_ptr<QueuePair> pair;
    RegisteredBuffer buffer;
    Status status = connection.fabric().NewQueuePair(TestDeadline(), &pair);
    if (status.ok()) status = connection.fabric().NewBuffer(bytes->size(), &buffer);
    if (!status.ok()) return status;
    const LocalSpan local = buffer.span().Sub(0, bytes->size());
    std::memcpy(buffer.data(), bytes->data(), bytes->size());
    Ticket ticket{};
    status = write ? pair->PostWrite(local, span, Purpose::kFlush, &ticket)
                   : pair->PostRead(span, local, Purpose::kRead, &ticket);
    if (status.ok()) status = pair->Wait(ticket, TestDeadline());
    bytes->assign(buffer.data(), bytes->size());
    return status;
  }
  static Status Call(NodeConnection& connection, Method method, const std::string& request) {
    std::string reply;
    return connection.rpc().Call(method, request, &reply, TestDeadline());
  }
  uint64_t used_bytes() { return server_->node().Statistics().used_bytes; }

  TemporaryDirectory temporary_;
  NodeServerOptions options_;
  std::unique_ptr<NodeServer> server_;
};

INSTANTIATE_TEST_SUITE_P(EveryFabric, StoredNodeTest,
                         testing::Values(Named<FabricKind>{"shm", FabricKind::kShm},
                                         Named<FabricKind>{"tcp", FabricKind::kTcp}),
                         NameOf<FabricKind>);

// Fails if a client has to open again because its memory node was started again, or reads something
// else than it wrote before.
TEST_P(StoredNodeTest, ClientsGoOn) {
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan first = client.Grant(1000);
  std::string bytes = "what was written before";
  const RemoteSpan span = first.Sub(64, bytes.size());
  ASSERT_OK(Transfer(*connection, span, &bytes, /*write=*/true));
  Restart();
  ASSERT_OK(CallAgain([&] { return client.Heartbeat(); }));
  const RemoteSpan second = client.Grant(1000);
  EXPECT_NE(first.offset, second.offset);
  std::string read(bytes.size(), '\0');
  ASSERT_OK(CallAgain([&] { return Transfer(*connection, span, &read, /*write=*/false); }));
  EXPECT_EQ(read, bytes);
  ASSERT_OK(client.PutManifest(1, "manifest", {first}));
  Restart();
  ASSERT_OK(CallAgain([&] { return client.Free({second}); }));
  ASSERT_OK(client.Close());
  EXPECT_TRUE(Eventually([&] { return used_bytes() == kDatabaseHeaderBytes + first.bytes; }));
  const auto other = Connect();
  TestClient reader(&other->rpc());
  ASSERT_OK(reader.Open("a", /*create_if_missing=*/false));
  EXPECT_EQ(reader.opened().manifest, "manifest");
  EXPECT_EQ(reader.opened().manifest_version, 1u);
}

// Fails if what nobody holds any more after a power failure stays allocated, or what a manifest
// names goes, or a client from before goes on.
TEST_P(StoredNodeTest, APowerFailureLeavesWhatManifestsName) {
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan live = client.Grant(1000);
  client.Grant(5000);
  ASSERT_OK(client.PutManifest(1, "manifest", {live}));
  const auto second_connection = Connect();
  TestClient unfinished(&second_connection->rpc());
  ASSERT_OK(unfinished.Open("b"));  // Without a manifest.
  const uint32_t epoch = OwnershipWord::Of(client.opened().ownership_word).epoch;
  LosePower();
  EXPECT_EQ(used_bytes(), kDatabaseHeaderBytes + live.bytes);
  const Status lost = client.Heartbeat();
  EXPECT_TRUE(lost.IsIOError());
  EXPECT_THAT(client.Heartbeat().ToString(), HasSubstr("has its contents still"));
  const auto other = Connect();
  TestClient reader(&other->rpc());
  ASSERT_OK(reader.Open("a", /*create_if_missing=*/false));
  EXPECT_EQ(reader.opened().manifest, "manifest");
  // No word is given out twice, whatever became of the header's.
  EXPECT_GT(OwnershipWord::Of(reader.opened().ownership_word).epoch, epoch);
}

// Fails if a session outlives a restart for ever, or what a client that is gone held stays.
TEST_P(StoredNodeTest, SessionsEndThatNobodyTakesUp) {
  options_.node.lease = milliseconds(500);
  options_.node.grace = milliseconds(300);
  Restart();
  {
    const auto connection = Connect();
    TestClient client(&connection->rpc());
    ASSERT_OK(client.Open("a"));
    client.Grant(100000);
    ASSERT_OK(client.PutManifest(1, "manifest", {}));
    server_.reset();
  }
  Start();
  EXPECT_GT(used_bytes(), 100000u);
  EXPECT_TRUE(Eventually([&] { return used_bytes() == kDatabaseHeaderBytes; }));
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
}

// Fails if bytes that were kept for readers of several databases are never free, because their
// fences are taken for one; or are free at once, while those still read.
TEST_P(StoredNodeTest, ReadersKeepWhatTheyReadForTheirLeases) {
  options_.node.lease = milliseconds(1500);
  options_.node.grace = milliseconds(100);
  Restart();
  const auto connection = Connect();
  const auto second_connection = Connect();
  TestClient first(&connection->rpc());
  TestClient second(&second_connection->rpc());
  for (TestClient* client : {&first, &second}) {
    ASSERT_OK(client->Open(client == &first ? "a" : "b"));
    const RemoteSpan extent = client->Grant(10000);
    ASSERT_OK(client->PutManifest(1, "manifest", {extent}));
    ASSERT_OK(client->OpenReader({client == &first ? "a" : "b"}));
    FreeRequest free;
    free.session = client->session();
    free.spans = {extent};
    free.unnamed_from = 7;  // The reader may still use an older publication.
    ASSERT_OK(
        Call(client == &first ? *connection : *second_connection, Method::kFree, free.Encode()));
    ASSERT_OK(client->PutManifest(2, "manifest", {}));
  }
  EXPECT_GT(used_bytes(), 20000u);
  Restart();
  EXPECT_GT(used_bytes(), 20000u);
  ASSERT_OK(CallAgain([&] { return first.Close(); }));
  ASSERT_OK(CallAgain([&] { return second.Close(); }));
  EXPECT_GT(used_bytes(), 20000u);
  EXPECT_TRUE(Eventually([&] { return used_bytes() == 2 * kDatabaseHeaderBytes; }));
}

// Fails if a restart resurrects what was destroyed, or forgets a quota.
TEST_P(StoredNodeTest, NothingIsResurrected) {
  const auto connection = Connect();
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  ASSERT_OK(client.PutManifest(1, "manifest", {client.Grant(1000)}));
  ASSERT_OK(client.Close());
  SetQuotaRequest quota;
  quota.name = "b";
  quota.bytes = 12345678;
  ASSERT_OK(Call(*connection, Method::kSetQuota, quota.Encode()));
  DestroyDatabaseRequest destroy;
  destroy.name = "a";
  ASSERT_OK(Call(*connection, Method::kDestroyDatabase, destroy.Encode()));
  LosePower();
  EXPECT_EQ(used_bytes(), 0u);
  const auto other = Connect();
  TestClient again(&other->rpc());
  EXPECT_TRUE(again.Open("a", /*create_if_missing=*/false).IsInvalidArgument());
  ASSERT_OK(again.Open("b"));
  EXPECT_EQ(again.opened().quota_bytes, 12345678u);
}

}  // namespace
}  // namespace dlsm
