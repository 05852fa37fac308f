#include "script/tool/node_use.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <sstream>

#include "memory_node/node_server.h"

namespace dlsm::tool {
namespace {

// Fails if one memory node that is gone hides what the others say, or passes for well.
TEST(NodeUseTest, ShowsEachNodeThatAnswers) {
  NodeServerOptions server_options;
  server_options.bytes = uint64_t{1} << 20;
  server_options.huge_pages = false;
  std::unique_ptr<NodeServer> gone, there;
  ASSERT_TRUE(NodeServer::Start(server_options, &gone).ok());
  ASSERT_TRUE(NodeServer::Start(server_options, &there).ok());

  NodeUseOptions options;
  options.memory_nodes = {{"127.0.0.1", gone->port()}, {"127.0.0.1", there->port()}};
  std::ostringstream both;
  EXPECT_TRUE(ShowNodeUse(options, &both).ok());
  for (const HostPort& node : options.memory_nodes) {
    EXPECT_NE(both.str().find(node.ToString() + " capacity 1048576 used 0 largest-free 1048576 "),
              std::string::npos)
        << both.str();
  }

  gone.reset();
  options.timeout = std::chrono::milliseconds(200);
  std::ostringstream one;
  EXPECT_FALSE(ShowNodeUse(options, &one).ok());
  EXPECT_EQ(one.str().find(options.memory_nodes[0].ToString() + ": "), 0u) << one.str();
  EXPECT_NE(one.str().find("\n" + options.memory_nodes[1].ToString() + " capacity 1048576 "),
            std::string::npos)
      << one.str();
}

TEST(NodeUseTest, NeedsNodes) {
  std::ostringstream out;
  EXPECT_TRUE(ShowNodeUse(NodeUseOptions(), &out).IsInvalidArgument());
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace dlsm::tool
