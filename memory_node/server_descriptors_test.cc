// The Server program with few descriptors, or started without its standard ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "memory_node/memory_node_testing.h"
#include "memory_node/server_process_testing.h"
#include "util/child_testing.h"
#include "util/eventually_testing.h"
#include "util/rpc/node_connection.h"

namespace dlsm {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class ServerDescriptorsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(ServerPath().c_str(), X_OK) != 0) GTEST_SKIP() << ServerPath() << " is not built";
  }

  static std::filesystem::path Descriptors(const ServerProcess& process) {
    return "/proc/" + std::to_string(process.id()) + "/fd";
  }
  // The number that the next descriptor gets. There may be greater ones, of whoever runs this test.
  static size_t NextOf(const ServerProcess& process) {
    size_t number = 0;
    while (std::filesystem::is_symlink(Descriptors(process) / std::to_string(number))) ++number;
    return number;
  }
  // It gets no number from `end` on.
  static void Limit(const ServerProcess& process, size_t end) {
    rlimit limit{};
    ASSERT_EQ(prlimit(process.id(), RLIMIT_NOFILE, nullptr, &limit), 0);
    limit.rlim_cur = end;
    ASSERT_EQ(prlimit(process.id(), RLIMIT_NOFILE, &limit, nullptr), 0);
  }

  static void ExpectRefused(const Status& status) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.ToString(), HasSubstr("no descriptor left"));
    EXPECT_THAT(status.ToString(), HasSubstr("of its Server (ulimit -n)"));
    EXPECT_THAT(status.ToString(), Not(AnyOf(HasSubstr("restart"), HasSubstr("session"))));
  }

  static Status Connect(const NodeAddress& address, std::unique_ptr<NodeConnection>* connection) {
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    return ConnectNode(address, options, TestDeadline(), connection);
  }
};

// Fails if a Server that was started without them serves memory, or a connection, as its standard
// input or error.
TEST_F(ServerDescriptorsTest, StandardOnesAreNothingElse) {
  ServerProcess process({"0", "0.0625", "3"}, {STDIN_FILENO, STDERR_FILENO});
  ASSERT_THAT(process.LineWith("ready"), HasSubstr("ready"));
  for (const int number : {STDIN_FILENO, STDERR_FILENO}) {
    EXPECT_EQ(std::filesystem::read_symlink(Descriptors(process) / std::to_string(number)),
              "/dev/null");
  }
}

// Fails if a client that is refused because the Server has no descriptor for it is told anything
// else, or waits in vain; or if the Server does not recover.
TEST_F(ServerDescriptorsTest, ClientsAreToldWhenThereAreNone) {
  if (!kWorksWithoutDescriptors) GTEST_SKIP() << "UBSan needs a descriptor now and then";
  ServerProcess process({"0", "0.0625", "3"});
  const NodeAddress address{"127.0.0.1", PortOf(process.LineWith("ready"))};
  std::unique_ptr<NodeConnection> first;
  ASSERT_OK(Connect(address, &first));
  TestClient client(&first->rpc());
  ASSERT_OK(client.Open("a"));
  const size_t next = NextOf(process);
  std::unique_ptr<QueuePair> queue_pair;
  Limit(process, next);
  ExpectRefused(first->fabric().NewQueuePair(TestDeadline(), &queue_pair));
  // What was kept for the refused one is free again when its thread has ended.
  EXPECT_TRUE(Eventually([&] { return NextOf(process) < next; }));
  std::unique_ptr<NodeConnection> second;
  ExpectRefused(Connect(address, &second));
  EXPECT_TRUE(Eventually([&] { return NextOf(process) < next; }));
  // A connection takes one, what wakes its thread another, and the copy that serves data a third.
  Limit(process, next + 2);
  ExpectRefused(first->fabric().NewQueuePair(TestDeadline(), &queue_pair));
  Limit(process, next + 100);
  EXPECT_OK(first->fabric().NewQueuePair(TestDeadline(), &queue_pair));
  EXPECT_OK(Connect(address, &second));
  EXPECT_EQ(client.Grant(4096).node, NodeId{3});
}

}  // namespace
}  // namespace dlsm
