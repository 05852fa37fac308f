// Followers that a memory node has no room for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "db/test/test_database_testing.h"
#include "memory_node/node_server.h"

namespace dlsm {
namespace {

// Fails if a follower that a memory node refuses at once goes on as if it had one.
TEST(FollowerRefusedTest, SaysThatThereAreTooManyConnections) {
  NodeServerOptions node_options;
  node_options.bytes = uint64_t{64} << 20;
  node_options.huge_pages = false;
  node_options.connections_max = 6;
  std::unique_ptr<NodeServer> node;
  ASSERT_OK(NodeServer::Start(node_options, &node));
  Options options = TinyOptions();
  options.memory_nodes = "127.0.0.1:" + std::to_string(node->port());
  options.fabric = "shm";
  options.publish_interval_ms = 5;
  std::unique_ptr<DB> owner = OpenOrDie(options, "followed");
  options.open_timeout_ms = 3000;  // It may publish first.
  std::vector<std::unique_ptr<DB>> followers;
  Status refused;
  while (refused.ok() && followers.size() < 10) {
    std::unique_ptr<DB> follower;
    refused = DB::OpenFollower(options, "followed", &follower);
    if (refused.ok()) followers.push_back(std::move(follower));
  }
  EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), testing::HasSubstr("6 connections, its limit"));
  EXPECT_FALSE(followers.empty());
  for (const auto& follower : followers) EXPECT_OK(follower->Close());
  followers.clear();
  EXPECT_OK(owner->Close());
}

}  // namespace
}  // namespace dlsm
