#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "memory_node/accounts/database_table_testing.h"
#include "memory_node/memory_node_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kDatabaseMegabyte = uint64_t{1} << 20;

// Fails if a client is told that more may be granted than is, or less: by then it should have
// merged what is obsolete. With a quota, too. Or if others are not told that it has been refused.
TEST(DatabaseQuotaTest, HeartbeatsTellWhatMayBeGranted) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.node.merge_reserve_bytes = 16 * kDatabaseMegabyte;
  const TestServer server(options);
  std::unique_ptr<NodeConnection> connection;
  NodeConnectionOptions connect;
  connect.fabric.kind = FabricKind::kTcp;
  ASSERT_OK(ConnectNode(server.address(), connect, TestDeadline(), &connection));
  TestClient client(&connection->rpc());
  ASSERT_OK(client.Open("db"));
  HeartbeatReply reply;
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_EQ(reply.free_bytes, reply.grantable_bytes + 16 * kDatabaseMegabyte);
  RemoteSpan extent;
  EXPECT_TRUE(client
                  .Grant(reply.grantable_bytes + kDatabaseMegabyte,
                         reply.grantable_bytes + kDatabaseMegabyte, &extent)
                  .IsBusy());

  TestClient other(&connection->rpc());
  ASSERT_OK(other.Open("other"));
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(client.Grant(64 * kDatabaseMegabyte, 64 * kDatabaseMegabyte, &extent).IsBusy());
    EXPECT_OK(other.Heartbeat(&reply));
    return reply.others_want_room;
  }));
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_FALSE(reply.others_want_room) << "it is none of the others";

  SetQuotaRequest quota;
  quota.name = "db";
  quota.bytes = 8 * kDatabaseMegabyte;
  std::string bytes;
  ASSERT_OK(connection->rpc().Call(Method::kSetQuota, quota.Encode(), &bytes, TestDeadline()));
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_LE(reply.grantable_bytes, 8 * kDatabaseMegabyte);
  EXPECT_GT(reply.grantable_bytes, 4 * kDatabaseMegabyte);
  ASSERT_OK(client.Grant(2 * kDatabaseMegabyte, 2 * kDatabaseMegabyte, &extent));
  const uint64_t before = reply.grantable_bytes;
  ASSERT_OK(client.Heartbeat(&reply));
  EXPECT_EQ(reply.grantable_bytes, before - 2 * kDatabaseMegabyte);
}

// A database goes while a merge still reads what it had: its owner closed before it put a manifest.
// Fails if the next one of that name gets as much as the quota beside that; or if it gets no more
// once the merge has ended.
TEST_F(DatabaseTableTest, AQuotaCountsWhatIsLeftOfADatabaseThatHasGone) {
  SetQuotaRequest quota;
  quota.name = "a";
  quota.bytes = kHeader + 16 * kUnit;
  ASSERT_OK(table_.SetQuota(Peer(1), quota));
  const SessionId first = OpenOk("a");
  const RemoteSpan input = GrantOk(first, 10 * kUnit);
  auto merge = Merge(first, {input});
  auto another = Merge(first, {input});
  ASSERT_OK(Close(first));
  EXPECT_TRUE(table_.List().databases.empty());
  EXPECT_EQ(used(), 10 * kUnit);

  const SessionId next = OpenOk("a#shard-1");
  RemoteSpan granted;
  EXPECT_TRUE(Grant(next, 7 * kUnit, 7 * kUnit, &granted).IsBusy());
  EXPECT_EQ(table_.refused_grants().over_quota, 1u);
  EXPECT_EQ(table_.GrantableBytesFor(next), 6 * kUnit);
  EXPECT_OK(Grant(OpenOk("another"), 16 * kUnit, 16 * kUnit, &granted));
  merge.reset();
  EXPECT_EQ(table_.GrantableBytesFor(next), 6 * kUnit);
  another.reset();
  EXPECT_OK(Grant(next, 16 * kUnit, 16 * kUnit, &granted));
}

}  // namespace
}  // namespace dlsm
