#include <gtest/gtest.h>

#include <memory>

#include "memory_node/memory_node_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

// Fails if a client is told that more may be granted than is, or less: by then it should have
// merged what is obsolete. With a quota, too.
TEST(DatabaseQuotaTest, HeartbeatsTellWhatMayBeGranted) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.node.merge_reserve_bytes = 16 * kMegabyte;
  const TestServer server(options);
  std::unique_ptr<NodeConnection> connection;
  NodeConnectionOptions connect;
  connect.fabric.kind = FabricKind::kTcp;
  ASSERT_OK(ConnectNode(server.address(), connect, TestDeadline(), &connection));
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("db"));
  HeartbeatReply reply;
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_EQ(reply.free_bytes, reply.grantable_bytes + 16 * kMegabyte);
  RemoteSpan extent;
  EXPECT_TRUE(
      client.Grant(reply.grantable_bytes + kMegabyte, reply.grantable_bytes + kMegabyte, &extent)
          .IsBusy());

  SetQuotaRequest quota;
  quota.name = "db";
  quota.bytes = 8 * kMegabyte;
  std::string bytes;
  ASSERT_OK(connection->rpc().Call(Method::kSetQuota, quota.Encode(), &bytes, TestDeadline()));
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_LE(reply.grantable_bytes, 8 * kMegabyte);
  EXPECT_GT(reply.grantable_bytes, 4 * kMegabyte);
  ASSERT_OK(client.Grant(2 * kMegabyte, 2 * kMegabyte, &extent));
  const uint64_t before = reply.grantable_bytes;
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_EQ(reply.grantable_bytes, before - 2 * kMegabyte);
}

}  // namespace
}  // namespace dlsm
