// Merges whose inputs lie on several memory nodes.
#include "memory_node/merges/peer_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory_node/memory_node_testing.h"
#include "memory_node/table_client_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

NodeServerOptions OptionsOf(uint32_t node, FabricKind fabric) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.node.node = NodeId{node};
  options.fabric = fabric;
  options.secret = "the cluster's";
  // Over tcp, memory nodes that are secured reach each other, too.
  options.tls.enabled = fabric == FabricKind::kTcp;
  return options;
}

// A memory node with a database, and a compute node's way to it.
struct Node {
  Node(uint32_t node, FabricKind fabric) : server(OptionsOf(node, fabric)) { Connect(fabric); }

  void Connect(FabricKind fabric) {
    NodeConnectionOptions options;
    options.fabric.kind = fabric;
    options.credentials.secret = "the cluster's";
    TlsConfig tls;
    tls.enabled = fabric == FabricKind::kTcp;
    EXPECT_OK(UseTls(tls, &options.credentials));
    std::unique_ptr<NodeConnection> connection;
    EXPECT_OK(ConnectNode(server.address(), options, TestDeadline(), &connection));
    tables = std::make_unique<TableClient>(std::move(connection));
    EXPECT_OK(tables->client().Open("spread"));
  }

  MergePeer AsPeer() {
    const NodeAddress address = server.address();
    return {server.node().id(), server.node().boot(), address.host, address.port};
  }

  TestServer server;
  std::unique_ptr<TableClient> tables;
};

class PeerNodesTest : public testing::TestWithParam<Named<FabricKind>> {
 protected:
  PeerNodesTest() {
    for (uint32_t i = 1; i <= 3; ++i) nodes_.push_back(std::make_unique<Node>(i, GetParam()));
  }

  // Of one table on each memory node, the newest on the last one.
  MergeRequest SpreadRequest(Contents* expected) {
    const Contents oldest = Numbers(0, 30000, 1, "old");
    const Contents newer = Numbers(0, 30000, 3, "new");
    const Contents newest = Numbers(0, 30000, 5, "");  // Deletions.
    *expected = oldest;
    for (const auto& [key, value] : newer) (*expected)[key] = value;
    for (const auto& [key, value] : newest) expected->erase(key);
    MergeRequest request;
    request.runs = {{nodes_[2]->tables->WriteTable(newest, 30)},
                    {nodes_[1]->tables->WriteTable(newer, 20)},
                    {nodes_[0]->tables->WriteTable(oldest, 10)}};
    request.peers = {nodes_[1]->AsPeer(), nodes_[2]->AsPeer()};
    return request;
  }

  Status MergeAtFirst(const MergeRequest& request, MergeReply* reply) {
    return nodes_[0]->tables->client().Merge(request, reply);
  }

  Contents ReadAll(const MergeReply& reply) {
    Contents merged;
    for (const TableMeta& output : reply.outputs) {
      EXPECT_EQ(output.image.node, NodeId{1});
      merged.merge(nodes_[0]->tables->ReadTable(output));
    }
    return merged;
  }

  uint64_t UsedAt(size_t node) { return nodes_[node]->server.used_bytes(); }

  std::vector<std::unique_ptr<Node>> nodes_;
};

// Fails if a record of another memory node is missing from the result, or if more is read from
// there than there is.
TEST_P(PeerNodesTest, MergesTablesOfSeveralNodes) {
  Contents expected;
  const MergeRequest request = SpreadRequest(&expected);
  MergeReply reply;
  ASSERT_OK(MergeAtFirst(request, &reply));
  EXPECT_EQ(ReadAll(reply), expected);
  const uint64_t theirs = request.runs[0][0].image.bytes + request.runs[1][0].image.bytes;
  const uint64_t read = nodes_[0]->server.node().Statistics().peer_bytes_read;
  EXPECT_GE(read, theirs);
  EXPECT_LE(read, theirs + theirs / 10);
}

// Fails if merges of several threads that read the same peers disturb each other.
TEST_P(PeerNodesTest, SeveralAtOnce) {
  Contents expected;
  const MergeRequest request = SpreadRequest(&expected);
  std::vector<MergeReply> replies(4);
  std::vector<std::thread> threads;
  for (MergeReply& reply : replies) {
    threads.emplace_back([&] { EXPECT_OK(MergeAtFirst(request, &reply)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MergeReply& reply : replies) EXPECT_EQ(ReadAll(reply), expected);
}

// Fails if a merge that lacks a table goes on without it, or if what it has written is lost.
TEST_P(PeerNodesTest, WhatCannotBeReachedIsRefused) {
  Contents expected;
  const MergeRequest good = SpreadRequest(&expected);
  const uint64_t used = UsedAt(0);
  MergeReply reply;

  MergeRequest unnamed = good;
  unnamed.peers.pop_back();
  const Status status = MergeAtFirst(unnamed, &reply);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("memory node 3"));

  MergeRequest misnamed = good;
  std::swap(misnamed.peers[0].node, misnamed.peers[1].node);
  const Status wrong = MergeAtFirst(misnamed, &reply);
  EXPECT_TRUE(wrong.IsNotSupported()) << wrong.ToString();
  EXPECT_THAT(wrong.ToString(), HasSubstr("addresses that mean the same everywhere"));

  MergeRequest outside = good;
  outside.runs[1][0].image.offset = uint64_t{1} << 40;
  EXPECT_TRUE(MergeAtFirst(outside, &reply).IsInvalidArgument());

  nodes_[2]->server.Kill();
  const Status dead = MergeAtFirst(good, &reply);
  if (dead.ok()) {  // Who has mapped the memory of a process keeps it.
    EXPECT_EQ(GetParam(), FabricKind::kShm);
    EXPECT_EQ(ReadAll(reply), expected);
    std::vector<RemoteSpan> outputs;
    for (const TableMeta& output : reply.outputs) outputs.push_back(output.image);
    ASSERT_OK(nodes_[0]->tables->client().Free(outputs));
  } else {
    EXPECT_TRUE(dead.IsNotSupported() || dead.IsIOError()) << dead.ToString();
  }
  EXPECT_EQ(UsedAt(0), used);
}

// Fails if tables of before a peer's restart are looked for in its new memory, or if the connection
// of before is kept.
TEST_P(PeerNodesTest, APeerRestarts) {
  Contents expected;
  const MergeRequest before = SpreadRequest(&expected);
  MergeReply reply;
  ASSERT_OK(MergeAtFirst(before, &reply));
  nodes_[2]->server.Kill();
  nodes_[2]->server.Restart();
  nodes_[2]->Connect(GetParam());
  MergeRequest request = before;
  request.peers = {nodes_[1]->AsPeer(), nodes_[2]->AsPeer()};
  request.runs[0] = {nodes_[2]->tables->WriteTable(Numbers(0, 30000, 5, ""), 30)};
  // Where the loss is only noticed while reading, the next try finds its way.
  Status merged = MergeAtFirst(request, &reply);
  if (merged.IsIOError()) merged = MergeAtFirst(request, &reply);
  ASSERT_OK(merged);
  EXPECT_EQ(ReadAll(reply), expected);
  const Status stale = MergeAtFirst(before, &reply);
  EXPECT_TRUE(stale.IsNotSupported()) << stale.ToString();
  EXPECT_THAT(stale.ToString(), HasSubstr("in another boot than the request for the merge names"));
  EXPECT_THAT(stale.ToString(), HasSubstr("open the database again"));
  ASSERT_OK(MergeAtFirst(request, &reply));
}

INSTANTIATE_TEST_SUITE_P(EveryFabric, PeerNodesTest,
                         testing::Values(Named<FabricKind>{"shm", FabricKind::kShm},
                                         Named<FabricKind>{"tcp", FabricKind::kTcp}),
                         NameOf<FabricKind>);

}  // namespace
}  // namespace dlsm
