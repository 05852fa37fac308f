// What the owner of a database does with it, and what tools ask of a memory node, step by step with
// faults (fail_nth_testing.h). Followers and other owners: fail_nth_owners_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/iterator.h"
#include "db/test/faults/fail_nth_testing.h"
#include "util/cluster_config.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

TEST_P(FailNthTest, OpenNew) { FailEach({.attempt = OpenIfClosed}, kWriteFaults); }

TEST_P(FailNthTest, OpenExisting) {
  FailEach({.prepare = FillAndClose, .attempt = OpenIfClosed}, kWriteFaults);
}

TEST_P(FailNthTest, Close) {
  FailEach({.prepare = Fill,
            .attempt =
                [](FaultWorld* world) {
                  return world->db() == nullptr ? Status::OK() : world->Close();
                }},
           kWriteFaults);
}

// Puts that switch memtables, with the flushes and merges that follow.
TEST_P(FailNthTest, PutsThatSwitchMemtables) {
  FailEach({.prepare = FillAndFlush,
            .attempt =
                [](FaultWorld* world) {
                  for (int round = 0; round < 3; ++round) {
                    DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->db().get()));
                  }
                  return world->db()->WaitForBackgroundWork();
                }},
           kWriteFaults);
}

TEST_P(FailNthTest, WriteOfBatches) {
  FailEach({.prepare = FillAndFlush, .attempt = [](FaultWorld* world) {
              for (uint32_t i = 0; i < 10; ++i) {
                DLSM_RETURN_IF_ERROR(world->keys().Write(world->db().get(), i, 40, 3));
              }
              return Status::OK();
            }});
}

TEST_P(FailNthTest, Get) {
  FailEach({.prepare = FillAndFlush, .attempt = [](FaultWorld* world) {
              Status first_error;
              for (uint32_t number = 0; number < VersionedKeys::kKeys; number += 9) {
                KeepFirstError(world->keys().Get(world->db().get(), number), &first_error);
              }
              return first_error;
            }});
}

TEST_P(FailNthTest, MultiGet) {
  FailEach({.prepare = FillAndFlush, .attempt = [](FaultWorld* world) {
              return world->keys().MultiGet(world->db().get());
            }});
}

TEST_P(FailNthTest, Iterators) {
  FailEach({.prepare = FillAndFlush, .attempt = [](FaultWorld* world) {
              DLSM_RETURN_IF_ERROR(world->keys().Scan(world->db().get(), /*forward=*/true));
              DLSM_RETURN_IF_ERROR(world->keys().Scan(world->db().get(), /*forward=*/false));
              const std::unique_ptr<Iterator> iterator(world->db()->NewIterator(ReadOptions()));
              iterator->Seek(VersionedKeys::Key(50));
              if (iterator->Valid()) iterator->Prev();
              if (iterator->Valid()) iterator->Next();
              if (iterator->status().ok()) {
                EXPECT_EQ(iterator->key().ToString(), VersionedKeys::Key(50));
              }
              return iterator->status();
            }});
}

TEST_P(FailNthTest, Snapshots) {
  FailEach({.prepare = FillAndFlush, .attempt = [](FaultWorld* world) {
              DB* const db = world->db().get();
              const VersionedKeys before = world->keys();
              ReadOptions options;
              options.snapshot = db->GetSnapshot();
              Status status = world->keys().Write(db, 0, 20, 2);
              const Status flushed = db->Flush(FlushOptions());
              if (status.ok()) status = flushed;
              for (uint32_t number = 0; number < 30; number += 5) {
                const Status got = before.Get(db, number, options);
                if (status.ok()) status = got;
              }
              db->ReleaseSnapshot(options.snapshot);
              return status;
            }});
}

TEST_P(FailNthTest, Flush) {
  FailEach({.prepare = Fill,
            .attempt =
                [](FaultWorld* world) {
                  const Status status = world->db()->Flush(FlushOptions());
                  if (status.ok()) world->keys().NoteFlushed();
                  return status;
                }},
           kWriteFaults);
}

TEST_P(FailNthTest, CompactRange) {
  FailEach({.prepare = Fill, .attempt = CompactAll}, kWriteFaults);
}

TEST_P(FailNthTest, Destroy) {
  FailEach({.prepare = FillAndClose,
            .attempt =
                [](FaultWorld* world) {
                  const Status status = DestroyDB(world->name(), world->options());
                  if (status.ok()) world->keys().ForgetAll();
                  return status;
                },
            .destroys = true});
}

// The memory node has no room, or little, for what a merge makes. Fails if a merge that is given up
// leaves outputs behind, takes inputs with it, or is not done once there is room.
TEST_P(FailNthTest, MergesWithoutRoom) {
  constexpr uint64_t kStep = 4 << 10;
  Options options = ShapedOptions();
  options.write_stall_timeout_ms = 100;
  const auto set_quota = [this](const FaultWorld& world, uint64_t bytes) {
    SetQuotaRequest request;
    request.name = world.name();
    request.bytes = bytes;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      EXPECT_OK(nodes_[i].server().node().databases().SetQuota(RpcPeer(), request));
    }
  };
  uint64_t full = 0;
  for (uint64_t room = 0; room < 24 * kStep; room += kStep * Stride()) {
    SCOPED_TRACE(testing::Message() << room << " bytes of room");
    FaultWorld world(&nodes_, options, "full " + std::to_string(room));
    ASSERT_OK(Fill(&world));
    ASSERT_OK(world.db()->Flush(FlushOptions()));
    uint64_t used = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) used = std::max(used, nodes_[i].used_bytes());
    // Merges may have a quarter more than the quota.
    set_quota(world, (used + room) / 5 * 4);
    std::string before;
    std::string after;
    EXPECT_TRUE(world.db()->GetProperty("dlsm.levels", &before));
    ExpectExplained(CompactAll(&world));
    EXPECT_TRUE(world.db()->GetProperty("dlsm.levels", &after));
    if (before == after) ++full;
    set_quota(world, 0);
    ASSERT_OK(CompactAll(&world)) << "there is room again";
    world.ExpectWhole();
    if (HasFailure()) return;
  }
  if (GetParam().place == CompactionPlace::kMemoryNode && GetParam().nodes == 1) {
    EXPECT_GT(full, 0u) << "every merge found room";
  }
}

TEST_P(FailNthTest, PropertiesAndOptions) {
  FailEach({.prepare = FillAndFlush, .attempt = [](FaultWorld* world) {
              std::string text;
              for (const char* property : {"dlsm.stats", "dlsm.levels", "dlsm.merge-load"}) {
                EXPECT_TRUE(world->db()->GetProperty(property, &text)) << property;
              }
              const Range range("", "~");
              uint64_t size = 0;
              world->db()->GetApproximateSizes(&range, 1, &size);
              EXPECT_GT(size, 0u);
              return world->db()->SetOptions({{"memory_node_merge_scheduler", "fair"}});
            }});
}

// What tools ask of a memory node.
TEST_P(FailNthTest, CallsOfTools) {
  FailEach({.prepare = FillAndClose, .attempt = [](FaultWorld* world) {
              std::vector<HostPort> hosts;
              DLSM_RETURN_IF_ERROR(ParseHostPorts(world->options().memory_nodes, &hosts));
              NodeConnectionOptions connect;
              connect.fabric.kind = FabricKind::kTcp;
              connect.fabric.faults = world->options().fault_injector;
              const Deadline deadline = Deadline::In(std::chrono::seconds(10));
              std::unique_ptr<NodeConnection> connection;
              DLSM_RETURN_IF_ERROR(
                  ConnectNode({hosts[0].host, hosts[0].port}, connect, deadline, &connection));
              std::string reply;
              DLSM_RETURN_IF_ERROR(
                  connection->rpc().Call(Method::kNodeStatistics, Slice(), &reply, deadline));
              DLSM_RETURN_IF_ERROR(NodeStatisticsReply().Decode(reply));
              DLSM_RETURN_IF_ERROR(
                  connection->rpc().Call(Method::kListDatabases, Slice(), &reply, deadline));
              DLSM_RETURN_IF_ERROR(ListDatabasesReply().Decode(reply));
              SetQuotaRequest quota;
              quota.name = world->name();
              quota.bytes = uint64_t{60} << 20;
              DLSM_RETURN_IF_ERROR(
                  connection->rpc().Call(Method::kSetQuota, quota.Encode(), &reply, deadline));
              quota.bytes = 0;
              return connection->rpc().Call(Method::kSetQuota, quota.Encode(), &reply, deadline);
            }});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FailNthTest,
    testing::Values(FaultShape{"OneNode", "tcp", 1, 1, CompactionPlace::kMemoryNode, 1},
                    FaultShape{"MergesHere", "shm", 1, 1, CompactionPlace::kComputeNode, 3},
                    FaultShape{"ShardsOverNodes", "tcp", 2, 3, CompactionPlace::kMemoryNode, 7}),
    [](const testing::TestParamInfo<FaultShape>& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace dlsm
