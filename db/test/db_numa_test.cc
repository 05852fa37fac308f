// Where a handle's memory and threads are, on a machine with NUMA nodes of the test's choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/db.h"
#include "db/test/test_database_testing.h"
#include "util/numa.h"
#include "util/numa_testing.h"
#include "util/rpc/node_connection.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class DbNumaTest : public testing::Test {
 protected:
  Options On(int numa_node) const {
    Options options = node_.With({}, "shm");
    options.create_if_missing = true;
    options.write_buffer_size = 1 << 20;
    options.numa_node = numa_node;
    return options;
  }

  static std::string Property(DB* db) {
    std::string value;
    EXPECT_TRUE(db->GetProperty("dlsm.numa", &value));
    return value;
  }

  // As many as make for flushes of memtables by threads of the background.
  static void Fill(DB* db) {
    const std::string value(1000, 'v');
    for (int i = 0; i < 5000; ++i) ASSERT_OK(db->Put({}, std::to_string(i), value));
    ASSERT_OK(db->WaitForBackgroundWork());
    std::string read;
    for (int i = 0; i < 5000; i += 100) {
      ASSERT_OK(db->Get({}, std::to_string(i), &read));
      EXPECT_EQ(read, value);
    }
  }

  TestNode node_;
};

// Fails if memtables, buffers or background threads are on another node than was asked for, or if
// handles on different nodes share any of them.
TEST_F(DbNumaTest, EachHandleIsOnItsNode) {
  FakeNuma machine{{0, {}}, {1, {}}, {3, {}}};
  std::unique_ptr<DB> one;
  ASSERT_OK(DB::Open(On(1), "one", &one));
  Fill(one.get());
  EXPECT_GE(NumaUseOf(1).preferred_bytes, uint64_t{2} << 20);
  const size_t threads = machine.ThreadsOn(1).size();
  EXPECT_GE(threads, 2u);
  EXPECT_EQ(machine.BytesPlacedOn(3), 0u);
  EXPECT_TRUE(machine.ThreadsOn(3).empty());
  for (const FakeNuma::Placed& each : machine.placed()) {
    EXPECT_EQ(each.placement, NumaSystem::Placement::kPreferred);
  }

  std::unique_ptr<DB> three;
  ASSERT_OK(DB::Open(On(3), "three", &three));
  const size_t placed = machine.BytesPlacedOn(1);
  Fill(three.get());
  EXPECT_EQ(machine.BytesPlacedOn(1), placed);
  EXPECT_GE(NumaUseOf(3).preferred_bytes, uint64_t{2} << 20);
  EXPECT_GE(machine.ThreadsOn(3).size(), 2u);
  EXPECT_THAT(Property(one.get()), HasSubstr("node 1\nmemory-of-process "));
  EXPECT_THAT(Property(three.get()), HasSubstr("node 3\nmemory-of-process "));
  EXPECT_EQ(Property(three.get()).find("memory-of-process 0\n"), std::string::npos);
  EXPECT_EQ(Property(three.get()).find("threads-of-process 0\n"), std::string::npos);
  ASSERT_OK(one->Close());
  ASSERT_OK(three->Close());
}

// Fails if a handle that is not asked to be on a node is, or if it is asked to and the kernel's
// refusal keeps it from working.
TEST_F(DbNumaTest, OtherHandlesAreOnNone) {
  FakeNuma machine{{0, {}}, {1, {}}};
  for (const int none : {Options::kNoNumaNode, Options::kNumaNodeOfDevice}) {
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(On(none), "none", &db));
    Fill(db.get());
    EXPECT_EQ(Property(db.get()), "node none\n");
    EXPECT_TRUE(machine.placed().empty());
    EXPECT_TRUE(machine.ThreadsOn(0).empty());
  }
  machine.placing_fails_with = EPERM;
  machine.running_fails_with = EINVAL;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(On(1), "refused", &db));
  Fill(db.get());
}

// Fails if a node is accepted that there is not, or if it is not said what to do.
TEST_F(DbNumaTest, NodesThatAreNotThereAreRefused) {
  FakeNuma machine{{0, {}}, {1, {}}, {2, {.allowed = false}}};
  std::unique_ptr<DB> db;
  for (const int node : {2, 3, 4000, -3}) {
    Status refused = DB::Open(On(node), "db", &db);
    EXPECT_TRUE(refused.IsInvalidArgument()) << node;
    EXPECT_THAT(refused.ToString(), HasSubstr("Options::numa_node"));
    EXPECT_THAT(refused.ToString(), HasSubstr("there are: 0, 1"));
    refused = DB::OpenFollower(On(node), "db", &db);
    EXPECT_TRUE(refused.IsInvalidArgument()) << node;
  }
  machine.available = false;
  const Status refused = DB::Open(On(0), "db", &db);
  EXPECT_TRUE(refused.IsNotSupported());
  EXPECT_THAT(refused.ToString(), HasSubstr("no NUMA"));
  ASSERT_OK(DB::Open(On(Options::kNumaNodeOfDevice), "db", &db));
  const Status unchanged = db->SetOptions({{"numa_node", "1"}});
  EXPECT_TRUE(unchanged.IsInvalidArgument());
  EXPECT_THAT(unchanged.ToString(), HasSubstr("cannot change while the database is open"));
}

// As if the memory node were reached through a device on node 1.
class ConnectorOnNode : public NodeConnector {
 public:
  Status Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                 Deadline deadline, std::unique_ptr<NodeConnection>* connection) override {
    NodeConnectionOptions there = options;
    there.fabric.kind = FabricKind::kShm;
    if (there.fabric.numa_node == kNumaNodeOfDevice) there.fabric.numa_node = 1;
    return ConnectNode(address, there, deadline, connection);
  }
};

// Fails if a handle does not go where its device is, or goes there though it was told otherwise.
TEST_F(DbNumaTest, IsWhereItsDeviceIs) {
  FakeNuma machine{{0, {}}, {1, {}}};
  Options options = On(Options::kNumaNodeOfDevice);
  options.node_connector = std::make_shared<ConnectorOnNode>();
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, "db", &db));
  Fill(db.get());
  EXPECT_THAT(Property(db.get()), HasSubstr("node 1\n"));
  EXPECT_GE(machine.ThreadsOn(1).size(), 2u);
  EXPECT_GE(NumaUseOf(1).preferred_bytes, uint64_t{2} << 20);
  ASSERT_OK(db->Close());

  options.numa_node = Options::kNoNumaNode;
  const size_t placed = machine.placed().size();
  ASSERT_OK(DB::Open(options, "db", &db));
  EXPECT_EQ(Property(db.get()), "node none\n");
  EXPECT_EQ(machine.placed().size(), placed);
  options.numa_node = 0;
  ASSERT_OK(db->Close());
  ASSERT_OK(DB::Open(options, "db", &db));
  EXPECT_THAT(Property(db.get()), HasSubstr("node 0\n"));
}

// Fails if this machine's kernel refuses what is asked of it.
TEST_F(DbNumaTest, WorksOnTheNodesOfThisMachine) {
  if (!NumaSystem::Current().Available()) GTEST_SKIP() << "this kernel has no NUMA";
  for (const int node : NumaSystem::Current().AllowedNodes()) {
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(On(node), "node" + std::to_string(node), &db));
    Fill(db.get());
    EXPECT_THAT(Property(db.get()), HasSubstr("node " + std::to_string(node) + "\n"));
    EXPECT_EQ(Property(db.get()).find("memory-of-process 0\n"), std::string::npos);
  }
}

}  // namespace
}  // namespace dlsm
