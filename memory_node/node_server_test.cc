// A memory node and its clients across process boundaries that are not there: sockets, shm, death.
#include "memory_node/node_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "memory_node/memory_node_testing.h"
#include "util/eventually_testing.h"
#include "util/numa_testing.h"
#include "util/rpc/messages/database_header.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

NodeConnectionOptions Connect(FabricKind kind) {
  NodeConnectionOptions options;
  options.fabric.kind = kind;
  options.client_name = "tester";
  return options;
}

std::unique_ptr<NodeConnection> ConnectOk(const TestServer& server, FabricKind kind) {
  std::unique_ptr<NodeConnection> connection;
  EXPECT_OK(ConnectNode(server.address(), Connect(kind), TestDeadline(), &connection));
  return connection;
}

Status Transfer(FabricConnection& fabric, const RemoteSpan& remote, std::string* bytes,
                bool write) {
  std::unique_ptr<QueuePair> pair;
  RegisteredBuffer buffer;
  Status status = fabric.NewQueuePair(TestDeadline(), &pair);
  if (status.ok()) status = fabric.NewBuffer(bytes->size(), &buffer);
  if (!status.ok()) return status;
  const LocalSpan local = buffer.span().Sub(0, bytes->size());
  std::memcpy(buffer.data(), bytes->data(), bytes->size());
  Ticket ticket{};
  status = write ? pair->PostWrite(local, remote, Purpose::kFlush, &ticket)
                 : pair->PostRead(remote, local, Purpose::kRead, &ticket);
  if (status.ok()) status = pair->Wait(ticket, TestDeadline());
  bytes->assign(buffer.data(), bytes->size());
  return status;
}

// Fails if what one fabric writes is not what the other reads, or the manifest's memory does not
// survive its session.
TEST(NodeServerTest, ServesShmAndTcpAtOnce) {
  TestServer server;
  const auto shm = ConnectOk(server, FabricKind::kShm);
  EXPECT_EQ(shm->fabric().kind(), FabricKind::kShm);
  TestClient writer(&shm->rpc());
  ASSERT_OK(writer.Open("a"));
  const RemoteSpan extent = writer.Grant(1000);
  EXPECT_EQ(extent.node, NodeId{1});
  EXPECT_EQ(extent.bytes, 1024u);
  std::string bytes = "what the writer wrote";
  const RemoteSpan span = extent.Sub(64, bytes.size());
  ASSERT_OK(Transfer(shm->fabric(), span, &bytes, /*write=*/true));
  ASSERT_OK(writer.PutManifest(1, "manifest", {span}));
  ASSERT_OK(writer.Close());
  EXPECT_EQ(server.used_bytes(), kDatabaseHeaderBytes + 64);

  const auto tcp = ConnectOk(server, FabricKind::kTcp);
  EXPECT_EQ(tcp->fabric().kind(), FabricKind::kTcp);
  TestClient reader(&tcp->rpc());
  ASSERT_OK(reader.Open("a", /*create_if_missing=*/false));
  EXPECT_EQ(reader.opened().manifest, "manifest");
  std::string read(bytes.size(), '\0');
  ASSERT_OK(Transfer(tcp->fabric(), span, &read, /*write=*/false));
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(reader.List().databases.size(), 1u);
}

// Fails if memory of a client that dies is not given back, or its database stays locked.
TEST(NodeServerTest, DeadClientsLeaveNothing) {
  TestServer server;
  auto connection = ConnectOk(server, FabricKind::kTcp);
  {
    TestClient client(&connection->rpc());
    ASSERT_OK(client.Open("a"));
    const RemoteSpan extent = client.Grant(1 << 20);
    ASSERT_OK(client.PutManifest(1, "m", {extent.Sub(0, 4096)}));
    client.Grant(1 << 20);
  }
  EXPECT_EQ(server.used_bytes(), kDatabaseHeaderBytes + (uint64_t{2} << 20));
  const auto other = ConnectOk(server, FabricKind::kTcp);
  TestClient successor(&other->rpc());
  EXPECT_TRUE(successor.Open("a").IsBusy());
  connection.reset();
  EXPECT_TRUE(Eventually([&] { return successor.Open("a").ok(); }));
  EXPECT_EQ(server.used_bytes(), kDatabaseHeaderBytes + 4096);
  EXPECT_EQ(successor.opened().manifest, "m");
  EXPECT_OK(server.node().databases().CheckInvariants());
}

// Fails if a restart is not noticed, by calls or by transfers.
TEST(NodeServerTest, RestartIsAnotherBoot) {
  TestServer server;
  const auto connection = ConnectOk(server, FabricKind::kTcp);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  const BootId boot = server.node().boot();
  const ContentsId contents = server.node().contents();
  server.Kill();
  Status status = client.Heartbeat();
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  server.Restart();
  EXPECT_NE(server.node().boot(), boot);
  EXPECT_NE(server.node().contents(), contents) << "its memory is empty";
  ASSERT_TRUE(Eventually([&] {
    status = client.Heartbeat();
    return status.ToString().find("memory is lost") != std::string::npos;
  })) << status.ToString();
  std::string bytes(64, 'x');
  EXPECT_FALSE(Transfer(connection->fabric(), extent.Sub(0, 64), &bytes, /*write=*/true).ok());
}

// The process is another one, and its memory is said to be the same. Fails if contents change with
// the boot, if a client is told that they are lost, or if anything of the former boot is believed:
// its client, its session, its access.
TEST(NodeServerTest, ABootEndsWhatContentsDoNot) {
  TestServer server;
  const auto connection = ConnectOk(server, FabricKind::kTcp);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  const FabricPeer before = connection->peer();
  server.RestartWithContents();
  const auto later = ConnectOk(server, FabricKind::kTcp);
  EXPECT_EQ(later->peer().contents, before.contents);
  EXPECT_NE(later->peer().boot, before.boot);
  Status status;
  ASSERT_TRUE(Eventually([&] {
    status = client.Free({extent});
    return status.ToString().find("has its contents still") != std::string::npos;
  })) << status.ToString();
  EXPECT_FALSE(connection->rpc().lost().ok());
  std::string bytes(64, 'x');
  EXPECT_FALSE(Transfer(connection->fabric(), extent.Sub(0, 64), &bytes, /*write=*/true).ok());
  HeartbeatRequest heartbeat;
  heartbeat.session = client.session();
  std::string reply;
  const Status unknown =
      later->rpc().Call(Method::kHeartbeat, heartbeat.Encode(), &reply, TestDeadline());
  EXPECT_TRUE(unknown.IsAborted()) << unknown.ToString();
}

// Fails if a killed memory node is not an error in time.
TEST(NodeServerTest, KilledNodeIsAnError) {
  TestServer server;
  const auto connection = ConnectOk(server, FabricKind::kTcp);
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  const RemoteSpan extent = client.Grant(4096);
  server.Kill();
  std::string bytes(64, 'x');
  EXPECT_FALSE(Transfer(connection->fabric(), extent.Sub(0, 64), &bytes, /*write=*/false).ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = client.Heartbeat();
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
  }
  std::unique_ptr<NodeConnection> again;
  const Status status = ConnectNode(server.address(), Connect(FabricKind::kTcp),
                                    Deadline::In(milliseconds(50)), &again);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("cannot reach memory node 127.0.0.1:"));
}

// Fails if a fabric that is not to be had is not named, or the automatic choice takes it.
TEST(NodeServerTest, FabricsAreChosen) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.fabric = FabricKind::kTcp;
  TestServer tcp_only(options);
  std::unique_ptr<NodeConnection> connection;
  Status status =
      ConnectNode(tcp_only.address(), Connect(FabricKind::kShm), TestDeadline(), &connection);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("does not serve the shm fabric"));
  status =
      ConnectNode(tcp_only.address(), Connect(FabricKind::kLocal), TestDeadline(), &connection);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("embedded"));
  status =
      ConnectNode(tcp_only.address(), Connect(FabricKind::kVerbs), TestDeadline(), &connection);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("does not serve the verbs fabric"));
  ASSERT_OK(
      ConnectNodeAuto(tcp_only.address(), Connect(FabricKind::kTcp), TestDeadline(), &connection));
  EXPECT_EQ(connection->fabric().kind(), FabricKind::kTcp);

  TestServer both;
  ASSERT_OK(
      ConnectNodeAuto(both.address(), Connect(FabricKind::kTcp), TestDeadline(), &connection));
  EXPECT_EQ(connection->fabric().kind(), FabricKind::kShm);

  options.fabric = FabricKind::kLocal;
  std::unique_ptr<NodeServer> server;
  EXPECT_TRUE(NodeServer::Start(options, &server).IsInvalidArgument());
}

// Fails if a memory node that is to serve RDMA serves something else instead, on a machine that has
// no device; or if, where there is one, a client does not get it when it asks, or takes the best.
TEST(NodeServerTest, VerbsIsServedOrRefused) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.fabric = FabricKind::kVerbs;
  const Status usable = CheckVerbsDevice({});
  if (!usable.ok()) {
    std::unique_ptr<NodeServer> server;
    const Status status = NodeServer::Start(options, &server);
    EXPECT_EQ(status.ToString(), usable.ToString());
    EXPECT_THAT(status.ToString(), HasSubstr("use another fabric"));
    return;
  }
  TestServer server(options);
  std::unique_ptr<NodeConnection> connection;
  for (const bool best : {false, true}) {
    const NodeConnectionOptions connect = Connect(FabricKind::kVerbs);
    ASSERT_OK(best ? ConnectNodeAuto(server.address(), connect, TestDeadline(), &connection)
                   : ConnectNode(server.address(), connect, TestDeadline(), &connection));
    const bool served = !best || CheckVerbsAtomics({}).ok();
    EXPECT_EQ(connection->fabric().kind(), served ? FabricKind::kVerbs : FabricKind::kTcp);
    std::string bytes(64, 'r');
    std::string read(64, '\0');
    const RemoteSpan span{NodeId{1}, RegionId{0}, 128, 64};
    ASSERT_OK(Transfer(connection->fabric(), span, &bytes, /*write=*/true));
    ASSERT_OK(Transfer(connection->fabric(), span, &read, /*write=*/false));
    EXPECT_EQ(read, bytes);
  }
  const auto tcp = ConnectOk(server, FabricKind::kTcp);
  EXPECT_EQ(tcp->fabric().kind(), FabricKind::kTcp);
}

// Fails if data can be reached without the secret.
TEST(NodeServerTest, SecretGuardsTheMemory) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.secret = "right";
  TestServer server(options);
  std::unique_ptr<NodeConnection> connection;
  NodeConnectionOptions client = Connect(FabricKind::kTcp);
  client.credentials.secret = "wrong";
  EXPECT_TRUE(
      ConnectNode(server.address(), client, TestDeadline(), &connection).IsInvalidArgument());
  client.credentials.secret = "right";
  ASSERT_OK(ConnectNode(server.address(), client, TestDeadline(), &connection));
  // A token that was never given out opens no data connection.
  FabricPeer peer = connection->peer();
  peer.data_token = std::string(peer.data_token.size(), 'x');
  std::unique_ptr<FabricConnection> fabric;
  const Status joined = ConnectFabric(client.fabric, peer, TestDeadline(), &fabric);
  std::string bytes(64, '\0');
  EXPECT_TRUE(!joined.ok() ||
              !Transfer(*fabric, RemoteSpan{NodeId{1}, RegionId{0}, 0, 64}, &bytes, false).ok());
}

// Fails if a client without a control connection keeps its data connections.
TEST(NodeServerTest, DataConnectionsEndWithTheirClient) {
  TestServer server;
  auto connection = ConnectOk(server, FabricKind::kTcp);
  const FabricPeer peer = connection->peer();
  std::unique_ptr<FabricConnection> fabric;
  FabricOptions options;
  options.kind = FabricKind::kTcp;
  ASSERT_OK(ConnectFabric(options, peer, TestDeadline(), &fabric));
  const RemoteSpan span{NodeId{1}, RegionId{0}, 0, 64};
  std::string bytes(64, '\0');
  ASSERT_OK(Transfer(*fabric, span, &bytes, /*write=*/false));
  connection.reset();
  EXPECT_TRUE(Eventually([&] { return !Transfer(*fabric, span, &bytes, /*write=*/false).ok(); }));
}

// Fails if the embedded node is not one for all, or forgets.
TEST(EmbeddedNodeTest, LivesAsLongAsTheProcess) {
  EmbeddedNodeOptions node;
  node.bytes = uint64_t{64} << 20;
  std::unique_ptr<NodeConnection> first;
  ASSERT_OK(ConnectEmbeddedNode(node, FabricOptions(), &first));
  EXPECT_EQ(first->fabric().kind(), FabricKind::kLocal);
  TestClient client(&first->rpc());
  ASSERT_OK(client.Open("embedded"));
  const RemoteSpan span = client.Grant(64);
  std::string bytes(64, 'e');
  ASSERT_OK(Transfer(first->fabric(), span, &bytes, /*write=*/true));
  ASSERT_OK(client.PutManifest(1, "kept", {span}));
  std::unique_ptr<NodeConnection> second;
  node.bytes = 1;  // No longer looked at.
  ASSERT_OK(ConnectEmbeddedNode(node, FabricOptions(), &second));
  EXPECT_EQ(second->peer().contents, first->peer().contents);
  EXPECT_EQ(second->peer().boot, first->peer().boot);
  TestClient other(&second->rpc());
  EXPECT_TRUE(other.Open("embedded").IsBusy());
  ASSERT_OK(client.Close());
  first.reset();
  ASSERT_OK(other.Open("embedded", /*create_if_missing=*/false));
  EXPECT_EQ(other.opened().manifest, "kept");
  std::string read(64, '\0');
  ASSERT_OK(Transfer(second->fabric(), span, &read, /*write=*/false));
  EXPECT_EQ(read, bytes);
  ASSERT_OK(other.Close());
  ASSERT_OK(other.Destroy("embedded"));
  EXPECT_EQ(other.Statistics().used_bytes, 0u);
}

std::set<std::string> ThreadsOfThisProcess() {
  std::set<std::string> threads;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(each.path().filename());
  }
  return threads;
}

std::string NameOfThread(const std::string& thread) {
  std::ifstream file("/proc/self/task/" + thread + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::string ProcessorsOf(const std::string& thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  const std::string name = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return "";
}

// Fails if a byte of the memory, or a thread, is on another node; or if the caller is on that node
// afterwards.
TEST(NodeServerTest, MemoryAndThreadsAreOnItsNode) {
  constexpr int kProcessor = 0;
  FakeNuma machine{{0, {}}, {1, {.processor = kProcessor}}};
  const std::string self = std::to_string(::gettid());
  const std::string own = ProcessorsOf(self);
  const std::set<std::string> before = ThreadsOfThisProcess();
  NodeServerOptions options;
  options.bytes = uint64_t{16} << 20;
  options.numa_node = 1;
  std::unique_ptr<NodeServer> server;
  ASSERT_OK(NodeServer::Start(options, &server));
  EXPECT_EQ(ProcessorsOf(self), own);
  const char* const data = server->node().region().data();
  EXPECT_EQ(machine.NodeOf(data), 1);
  EXPECT_EQ(machine.NodeOf(data + options.bytes - 1), 1);
  EXPECT_THAT(server->DescribePlace(), HasSubstr("on NUMA node 1; threads as well"));
  // Threads that serve a client are made when it comes.
  std::unique_ptr<NodeConnection> connection;
  ASSERT_OK(ConnectNode({"127.0.0.1", server->port()}, Connect(FabricKind::kTcp), TestDeadline(),
                        &connection));
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("a"));
  size_t seen = 0;
  for (const std::string& thread : ThreadsOfThisProcess()) {
    // All clients of a process share the thread that waits for answers.
    if (before.contains(thread) || NameOfThread(thread) == "dlsm replies") continue;
    const std::string processors = ProcessorsOf(thread);
    if (processors.empty()) continue;  // It has ended meanwhile.
    EXPECT_EQ(processors, std::to_string(kProcessor)) << NameOfThread(thread);
    ++seen;
  }
  EXPECT_GE(seen, 4u);
  ASSERT_OK(client.Close());
}

// Fails if a Server starts with less than it was asked for, or does not say why it does not.
TEST(NodeServerTest, RefusesANodeThatIsNotThere) {
  FakeNuma machine{{0, {}}, {4, {}}};
  NodeServerOptions options;
  options.bytes = uint64_t{1} << 20;
  std::unique_ptr<NodeServer> server;
  for (const int node : {1, 5000, -7}) {
    options.numa_node = node;
    const Status refused = NodeServer::Start(options, &server);
    EXPECT_TRUE(refused.IsInvalidArgument()) << node;
    EXPECT_THAT(refused.ToString(), HasSubstr("there are: 0, 4"));
  }
  machine.available = false;
  options.numa_node = 0;
  EXPECT_TRUE(NodeServer::Start(options, &server).IsNotSupported());
  machine.available = true;
  machine.running_fails_with = EINVAL;
  ASSERT_OK(NodeServer::Start(options, &server));
  EXPECT_THAT(server->DescribePlace(), HasSubstr("threads are not kept on NUMA node 0"));
}

}  // namespace
}  // namespace dlsm
