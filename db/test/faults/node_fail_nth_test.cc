// What fails at a memory node itself: its Nth allocation, or its Nth step towards a memory node
// whose tables it merges with its own, for N from 1 until the operation is through untouched. Each
// time: an error is a Status that says so, nothing that was acknowledged is lost, the memory nodes
// keep what the live tables need and no more, and the database works again.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/test/faults/fault_world_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/named_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Some of the allocations of all memory nodes together are refused. Thread-safe.
class Refusals {
 public:
  // The `n`th from now on is; 1 is the next.
  void Once(uint64_t n) { Set(n, n); }
  // And so are all after it.
  void From(uint64_t n) { Set(n, UINT64_MAX); }
  // And so was the first: what would like much gets a little, and then no more.
  void FirstAndFrom(uint64_t n) {
    Set(n, UINT64_MAX);
    also_first_ = true;
  }
  void Clear() { Set(UINT64_MAX, UINT64_MAX); }
  uint64_t count() const { return refused_; }

  bool operator()() {
    const uint64_t number = ++asked_;
    const bool also = also_first_ && number == 1;
    if (!also && (number < first_ || number > last_)) return false;
    ++refused_;
    return true;
  }

 private:
  void Set(uint64_t first, uint64_t last) {
    asked_ = 0;
    also_first_ = false;
    last_ = last;
    first_ = first;
  }

  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> first_{UINT64_MAX};
  std::atomic<uint64_t> last_{UINT64_MAX};
  std::atomic<bool> also_first_{false};
  std::atomic<uint64_t> refused_{0};
};

// A memory node's way to others, over tcp and with faults.
class FaultyConnector final : public NodeConnector {
 public:
  explicit FaultyConnector(std::shared_ptr<FaultInjector> faults) : faults_(std::move(faults)) {}
  Status Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                 Deadline deadline, std::unique_ptr<NodeConnection>* connection) override {
    NodeConnectionOptions faulty = options;
    faulty.fabric.kind = FabricKind::kTcp;
    faulty.fabric.faults = faults_;
    return ConnectNode(address, faulty, deadline, connection);
  }

 private:
  const std::shared_ptr<FaultInjector> faults_;
};

TestNode::Config SmallNodeConfig() {
  TestNode::Config config;
  config.bytes = uint64_t{64} << 20;
  config.grace = std::chrono::milliseconds(50);
  return config;
}

Options BaseOptions(size_t nodes) {
  Options options = TinyOptions();
  options.operation_timeout_ms = 10000;
  options.open_timeout_ms = 10000;
  options.write_stall_timeout_ms = 100;
  options.compaction_place = CompactionPlace::kMemoryNode;
  if (nodes > 1) {
    options.placement = TablePlacement::kRoundRobin;
    options.scatter_width = 2;
  }
  return options;
}

// Each may wait for its time-out, so the first error ends it.
Status PutAll(FaultWorld* world) {
  for (uint32_t number = 0; number < VersionedKeys::kKeys; ++number) {
    DLSM_RETURN_IF_ERROR(world->keys().Put(world->db().get(), number));
  }
  return Status::OK();
}

Status FlushAll(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
  world->keys().NoteFlushed();
  return Status::OK();
}

// What was refused is tried again after a while; until then, and on a busy machine, writers are
// refused too.
Status Patiently(const std::function<Status(FaultWorld*)>& operation, FaultWorld* world) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Status status = operation(world);
  while (status.IsBusy() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    status = operation(world);
  }
  return status;
}

Status Fill(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(OpenIfClosed(world));
  for (int round = 0; round < 2; ++round) {
    DLSM_RETURN_IF_ERROR(PutAll(world));
    DLSM_RETURN_IF_ERROR(FlushAll(world));
  }
  return world->keys().Write(world->db().get(), 1, 30, 3);
}

// The memory nodes have the tables of the closed database, and nothing else of it.
void ExpectOnlyTables(TestNodes* nodes, FaultWorld* world) {
  if (world->db() == nullptr) {
    ASSERT_OK(world->Open());
  }
  ASSERT_OK(Patiently(FlushAll, world));
  ASSERT_OK(Patiently(CompactAll, world));
  uint64_t tables = 0;
  for (int level = 0; level < 4; ++level) {
    tables += NumberProperty(world->db().get(), "dlsm.num-files-at-level" + std::to_string(level));
  }
  const uint64_t bytes = NumberProperty(world->db().get(), "dlsm.table-bytes");
  const uint64_t most = bytes + 64 * tables + nodes->size() * kDatabaseHeaderBytes;
  ASSERT_OK(world->Close());
  uint64_t used = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    used = 0;
    for (size_t i = 0; i < nodes->size(); ++i) used += (*nodes)[i].used_bytes();
    if (used <= most) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < until);
  EXPECT_GE(used, bytes);
  EXPECT_LE(used, most) << "of which tables have " << bytes;
}

// -------- Memory

struct Operation {
  std::function<Status(FaultWorld*)> prepare = Fill;
  // What is tried, and tried again once there is room.
  std::function<Status(FaultWorld*)> attempt;
  // Afterwards, so that the model's keys are all that there are.
  std::function<Status(FaultWorld*)> clean_up = [](FaultWorld*) { return Status::OK(); };
  bool allocates = true;  // For certain.
};

// Keys besides the model's, of which there are enough for merges with several outputs.
constexpr int kFillers = 600;
std::string Filler(int number) { return "filler" + NumberedKey(static_cast<uint64_t>(number)); }

Status FillMore(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(Fill(world));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kFillers; ++i) {
      DLSM_RETURN_IF_ERROR(world->db()->Put(WriteOptions(), Filler(i), std::string(500, 'f')));
    }
    DLSM_RETURN_IF_ERROR(FlushAll(world));
  }
  return Status::OK();
}

Status DeleteFillers(FaultWorld* world) {
  for (int i = 0; i < kFillers; ++i) {
    DLSM_RETURN_IF_ERROR(world->db()->Delete(WriteOptions(), Filler(i)));
  }
  return FlushAll(world);
}

class NodeAllocationTest : public testing::TestWithParam<size_t> {
 protected:
  NodeAllocationTest() : nodes_(Configs(), "tcp") {}

  std::vector<TestNode::Config> Configs() {
    TestNode::Config config = SmallNodeConfig();
    config.refuse_extent = [this] { return refusals_(); };
    return std::vector<TestNode::Config>(GetParam(), config);
  }

  enum class How { kOnce, kAndAllThatFollow, kFirstAndAllThatFollow };

  void Refuse(uint64_t n, How how) {
    switch (how) {
      case How::kOnce:
        return refusals_.Once(n);
      case How::kAndAllThatFollow:
        return refusals_.From(n);
      case How::kFirstAndAllThatFollow:
        return refusals_.FirstAndFrom(n);
    }
  }

  // Returns whether the Nth was asked for, and refused.
  bool RefuseOne(const Operation& operation, uint64_t n, How how) {
    FaultWorld world(&nodes_, nodes_.With(BaseOptions(nodes_.size())),
                     "refuse " + std::to_string(++databases_));
    const Status prepared = Patiently(operation.prepare, &world);
    EXPECT_OK(prepared);
    if (!prepared.ok()) return false;
    const uint64_t before = refusals_.count();
    Refuse(n, how);
    const Status status = operation.attempt(&world);
    refusals_.Clear();
    const uint64_t least = how == How::kFirstAndAllThatFollow && n > 1 ? 2 : 1;
    const bool refused = refusals_.count() >= before + least;
    ExpectExplained(status);
    if (refusals_.count() == before) {
      EXPECT_OK(status);
    }
    EXPECT_OK(Patiently(operation.attempt, &world)) << "there is room again";
    EXPECT_OK(Patiently(operation.clean_up, &world));
    ExpectOnlyTables(&nodes_, &world);
    if (!testing::Test::HasFailure()) world.ExpectWhole();
    return refused;
  }

  void RefuseEach(const Operation& operation) {
    constexpr uint64_t kMost = 500;
    // What is made once is there now.
    RefuseOne({.attempt = CompactAll}, kMost, How::kOnce);
    const ProcessUse before = ProcessUse::Now();
    for (const How how : {How::kOnce, How::kAndAllThatFollow, How::kFirstAndAllThatFollow}) {
      uint64_t n = 1;
      for (; n < kMost; ++n) {
        SCOPED_TRACE(testing::Message() << "N=" << n << " how=" << static_cast<int>(how));
        const bool refused = RefuseOne(operation, n, how);
        if (HasFailure()) return;
        if (!refused) break;
      }
      EXPECT_LT(n, kMost);
      RecordProperty("Points" + std::to_string(static_cast<int>(how)), static_cast<int>(n - 1));
    }
    if (operation.allocates) {
      EXPECT_GT(refusals_.count(), 0u) << "nothing was allocated";
    }
    // Memory nodes keep their connections to each other, which are made at any time.
    if (GetParam() == 1) before.ExpectAgain();
  }

  Refusals refusals_;
  TestNodes nodes_;
  uint64_t databases_ = 0;
};

// Fails if a database is left half made, at one memory node of several, say.
TEST_P(NodeAllocationTest, OpenNew) {
  RefuseEach({.prepare = [](FaultWorld*) { return Status::OK(); }, .attempt = OpenIfClosed});
}

TEST_P(NodeAllocationTest, OpenExisting) {
  RefuseEach({.prepare =
                  [](FaultWorld* world) {
                    DLSM_RETURN_IF_ERROR(Fill(world));
                    return world->Close();
                  },
              .attempt = OpenIfClosed});
}

// Puts that switch memtables, with the flushes and merges that follow: memory is there one moment
// and not the next.
TEST_P(NodeAllocationTest, Puts) {
  RefuseEach({.attempt = [](FaultWorld* world) {
    for (int round = 0; round < 8; ++round) {
      DLSM_RETURN_IF_ERROR(PutAll(world));
    }
    return world->db()->WaitForBackgroundWork();
  }});
}

TEST_P(NodeAllocationTest, Flush) {
  RefuseEach({.attempt = [](FaultWorld* world) {
    // A grant has room for several flushes.
    for (int round = 0; round < 6; ++round) {
      DLSM_RETURN_IF_ERROR(PutAll(world));
      DLSM_RETURN_IF_ERROR(FlushAll(world));
    }
    return Status::OK();
  }});
}

// Fails if a merge that the memory node gives up in the middle keeps its first outputs, or loses
// its inputs.
TEST_P(NodeAllocationTest, Merge) {
  RefuseEach({.prepare = FillMore, .attempt = CompactAll, .clean_up = DeleteFillers});
}

// What frees memory must not depend on getting much of it.
TEST_P(NodeAllocationTest, BulkDeletions) {
  RefuseEach({.prepare = FillMore,
              .attempt =
                  [](FaultWorld* world) {
                    DLSM_RETURN_IF_ERROR(DeleteFillers(world));
                    DLSM_RETURN_IF_ERROR(CompactAll(world));
                    for (int i = 0; i < kFillers; ++i) {
                      EXPECT_EQ(GetOr(world->db().get(), Filler(i)), "(none)");
                    }
                    return Status::OK();
                  },
              // They may find room in what was granted before.
              .allocates = false});
}

INSTANTIATE_TEST_SUITE_P(Nodes, NodeAllocationTest, testing::Values(1, 2),
                         [](const auto& nodes) { return std::to_string(nodes.param); });

// -------- Other memory nodes

// A merge whose inputs lie on several memory nodes, with the Nth connection, queue pair, buffer or
// read of one of them towards another failing. The compute node reaches all of them.
class NodePeerTest : public testing::TestWithParam<Named<FaultKind>> {};

TEST_P(NodePeerTest, MergeOverSeveralNodes) {
  constexpr uint64_t kMost = 500;
  constexpr uint64_t kStride = 1;
  const ProcessUse before = ProcessUse::Now();
  uint64_t n = 1;
  uint64_t errors = 0;
  for (bool met = true; met && n < kMost; n += kStride) {
    SCOPED_TRACE(testing::Message() << "N=" << n);
    const auto faults = std::make_shared<FaultInjector>(n);
    faults->HarmAll(true);
    TestNode::Config config = SmallNodeConfig();
    config.connector = std::make_shared<FaultyConnector>(faults);
    // New ones each time: they keep their connections to each other.
    TestNodes nodes(std::vector<TestNode::Config>(2, config), "tcp");
    FaultWorld world(&nodes, nodes.With(BaseOptions(2)), "peers");
    // No merge before it is harmed.
    ASSERT_OK(world.Open());
    ASSERT_OK(PutAll(&world));
    faults->FailNth(n, GetParam());
    Status status = FlushAll(&world);
    for (int round = 0; round < 3 && status.ok(); ++round) {
      status = PutAll(&world);
      if (status.ok()) status = FlushAll(&world);
    }
    if (status.ok()) status = CompactAll(&world);
    met = faults->CountFaults() > 0;
    faults->Clear();
    // What was damaged on its way is told by who asked for the merge; its inputs are whole.
    const bool damaged = GetParam() == FaultKind::kCorrupt && status.IsCorruption();
    if (!damaged) ExpectExplained(status);
    if (!status.ok()) ++errors;
    if (!met) {
      EXPECT_OK(status);
      EXPECT_GT(nodes[0].server().node().Statistics().peer_bytes_read +
                    nodes[1].server().node().Statistics().peer_bytes_read,
                0u);
    }
    ASSERT_OK(Patiently(CompactAll, &world)) << "the fault is gone";
    ExpectOnlyTables(&nodes, &world);
    if (HasFailure()) return;
    world.ExpectWhole();
  }
  EXPECT_GT(n, 5u) << "memory nodes hardly spoke to each other";
  EXPECT_LT(n, kMost);
  RecordProperty("Points", static_cast<int>(n - 1));
  RecordProperty("Errors", static_cast<int>(errors));
  before.ExpectAgain();
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodePeerTest,
                         testing::Values(Named<FaultKind>{"Fail", FaultKind::kFail},
                                         Named<FaultKind>{"Disconnect", FaultKind::kDisconnect},
                                         Named<FaultKind>{"Corrupt", FaultKind::kCorrupt}),
                         NameOf<FaultKind>);

}  // namespace
}  // namespace dlsm
