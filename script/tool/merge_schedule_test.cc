#include "script/tool/merge_schedule.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "memory_node/node_server.h"

namespace dlsm::tool {
namespace {

class MergeScheduleTest : public testing::Test {
 protected:
  MergeScheduleTest() {
    NodeServerOptions options;
    options.bytes = uint64_t{1} << 20;
    options.huge_pages = false;
    EXPECT_TRUE(NodeServer::Start(options, &server_).ok());
    HostPort node;
    node.host = "127.0.0.1";
    node.port = server_->port();
    options_.memory_nodes = {node};
    where_ = "127.0.0.1:" + std::to_string(node.port) + " ";
  }

  std::unique_ptr<NodeServer> server_;
  MergeScheduleOptions options_;
  std::string where_;
  std::ostringstream out_;
};

// Fails if showing changes something, or if a change of one thing resets the other.
TEST_F(MergeScheduleTest, ShowsAndSets) {
  ASSERT_TRUE(ShowMergeSchedules(options_, &out_).ok());
  options_.schedule = "fair";
  ASSERT_TRUE(ShowMergeSchedules(options_, &out_).ok());
  options_.schedule.clear();
  options_.bytes_per_second = 3 << 19;
  ASSERT_TRUE(ShowMergeSchedules(options_, &out_).ok());
  options_.bytes_per_second.reset();
  ASSERT_TRUE(ShowMergeSchedules(options_, &out_).ok());
  EXPECT_EQ(out_.str(), where_ + "greedy, no limit\n" + where_ + "fair, no limit\n" + where_ +
                            "fair, 1.5 MB of input a second\n" + where_ +
                            "fair, 1.5 MB of input a second\n");
}

TEST_F(MergeScheduleTest, RefusesWhatThereIsNot) {
  options_.schedule = "lazy";
  const Status status = ShowMergeSchedules(options_, &out_);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.ToString().find("spring_and_gear"), std::string::npos) << status.ToString();
  options_.memory_nodes.clear();
  EXPECT_TRUE(ShowMergeSchedules(options_, &out_).IsInvalidArgument());
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace dlsm::tool
