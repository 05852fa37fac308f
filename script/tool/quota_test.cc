#include "script/tool/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "memory_node/memory_node_testing.h"

namespace dlsm::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

// Fails if a number is taken for what it is not.
TEST(QuotaTest, Parses) {
  uint64_t bytes = 7;
  ASSERT_OK(ParseQuota("none", &bytes));
  EXPECT_EQ(bytes, 0u);
  ASSERT_OK(ParseQuota("4294967296", &bytes));
  EXPECT_EQ(bytes, uint64_t{1} << 32);
  for (const char* bad : {"", "0", "-1", "1k", " 1", "99999999999999999999"}) {
    EXPECT_TRUE(ParseQuota(bad, &bytes).IsInvalidArgument()) << bad;
  }
}

// Fails if a quota is not set, set for another database, or not shown.
TEST(QuotaTest, ShowsAndSets) {
  TestServer server;
  std::unique_ptr<NodeConnection> connection;
  NodeConnectionOptions connect;
  connect.fabric.kind = FabricKind::kTcp;
  ASSERT_OK(ConnectNode(server.address(), connect, TestDeadline(), &connection));
  TestClient a(&connection->rpc());
  TestClient b(&connection->rpc());
  ASSERT_OK(a.Open("a"));
  ASSERT_OK(b.Open("ab"));
  QuotaOptions options;
  std::ostringstream out;
  EXPECT_TRUE(ShowQuotas(options, &out).IsInvalidArgument());
  options.memory_nodes = {HostPort{server.address().host, server.address().port}};
  ASSERT_OK(ShowQuotas(options, &out));
  EXPECT_THAT(out.str(), HasSubstr(" a bytes 4096 quota none open\n"));
  EXPECT_THAT(out.str(), HasSubstr(" ab bytes 4096 quota none open\n"));
  options.bytes = 1 << 20;
  EXPECT_TRUE(ShowQuotas(options, &out).IsInvalidArgument());
  options.database = "a";
  out.str("");
  ASSERT_OK(ShowQuotas(options, &out));
  EXPECT_THAT(out.str(), HasSubstr(" a bytes 4096 quota 1048576 open\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr(" ab ")));
  options.database = "c";
  out.str("");
  ASSERT_OK(ShowQuotas(options, &out));
  EXPECT_THAT(out.str(), HasSubstr("set for 'c', which no memory node"));
  options.bytes.reset();
  EXPECT_TRUE(ShowQuotas(options, &out).IsNotFound());
  options.bytes = 1 << 20;
  options.database = "a#shard-1";
  EXPECT_TRUE(ShowQuotas(options, &out).IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm::tool
