// Every operation, with its Nth transfer, call, connection, queue pair or buffer failing, for N
// from 1 until it is through untouched. Each time: the error is a Status that says so, nothing that
// was acknowledged is lost, nothing leaks, and the database works again once the fault is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/iterator.h"
#include "db/faults/fault_world_testing.h"
#include "util/cluster_config.h"
#include "util/fabric/fault_injector.h"
#include "util/rpc/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// How the database is made that an operation is tried on.
struct Shape {
  const char* name;
  const char* fabric;
  size_t nodes;
  int shards;
  CompactionPlace place;
  uint64_t stride;  // Of N: where there are many points, some of them.
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DLSM_SLOW_BUILD
#endif
#endif
#ifdef DLSM_SLOW_BUILD
constexpr uint64_t kStrideFactor = 4;
#else
constexpr uint64_t kStrideFactor = 1;
#endif

// How long what could not be closed is kept. Less would end sessions where the machine is busy.
constexpr auto kLease = std::chrono::milliseconds(1500);

TestNode::Config NodeConfig(const char* fabric) {
  TestNode::Config config = TestNode::Serving(fabric);
  config.bytes = uint64_t{64} << 20;
  config.lease = kLease;
  config.grace = std::chrono::milliseconds(50);
  return config;
}

Options OptionsOf(const Shape& shape) {
  Options options = TinyOptions();
  options.write_buffer_size = size_t{64} << 10;
  options.operation_timeout_ms = 10000;
  options.open_timeout_ms = 10000;
  options.compaction_place = shape.place;
  for (int i = 1; i < shape.shards; ++i) {
    options.write_buffer_size += size_t{64} << 10;
    options.shard_boundaries.push_back(VersionedKeys::Key(
        VersionedKeys::kKeys * static_cast<uint32_t>(i) / static_cast<uint32_t>(shape.shards)));
  }
  if (shape.shards > 1) options.shards = shape.shards;
  if (shape.nodes > 1) {
    options.placement = TablePlacement::kRoundRobin;
    options.scatter_width = 2;
  }
  return options;
}

class FailNthTest : public testing::TestWithParam<Shape> {
 protected:
  using Step = std::function<Status(FaultWorld*)>;
  struct Operation {
    // Without faults.
    Step prepare = [](FaultWorld*) { return Status::OK(); };
    // What is tried, and tried again once the fault is gone.
    Step attempt;
    // Why the database is not expected to be whole afterwards.
    bool destroys = false;
    std::function<void(Options*)> change = [](Options*) {};
  };

  FailNthTest()
      : nodes_(std::vector<TestNode::Config>(GetParam().nodes, NodeConfig(GetParam().fabric)),
               GetParam().fabric) {}

  // What may be returned because of a fault, and by whom it can be told from a defect.
  static void ExpectExplained(const Status& status) {
    EXPECT_TRUE(status.ok() || status.IsIOError() || status.IsTimedOut() || status.IsBusy() ||
                status.IsAborted())
        << status.ToString();
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }

  // Returns whether the fault was met.
  bool FailOne(const Operation& operation, uint64_t n, FaultKind kind) {
    Options options = nodes_.With(OptionsOf(GetParam()));
    operation.change(&options);
    FaultWorld world(&nodes_, options, "fail " + std::to_string(++databases_));
    const Status prepared = operation.prepare(&world);
    EXPECT_OK(prepared);
    if (!prepared.ok()) return false;
    const uint64_t before = world.faults().CountFaults();
    world.faults().FailNth(n, kind);
    const Status status = operation.attempt(&world);
    world.faults().Clear();
    const bool met = world.faults().CountFaults() != before;
    ExpectExplained(status);
    if (!met) {
      EXPECT_OK(status);
    }
    if (HasFailure()) return false;
    Status again = operation.attempt(&world);
    // A session that could not be closed goes when its memory node has seen that its connection is
    // lost, or with its lease.
    const auto lease_over = std::chrono::steady_clock::now() + 5 * kLease;
    while ((again.IsTimedOut() || again.IsBusy()) &&
           std::chrono::steady_clock::now() < lease_over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      again = operation.attempt(&world);
    }
    EXPECT_OK(again) << "the fault is gone";
    if (!operation.destroys) world.ExpectWhole();
    return met;
  }

  // DLSM_FAULT_STRIDE=1 is all of them; sanitizers take their time.
  static uint64_t Stride() {
    const char* const asked = std::getenv("DLSM_FAULT_STRIDE");
    if (asked != nullptr) return std::max<uint64_t>(1, std::strtoull(asked, nullptr, 10));
    return GetParam().stride * kStrideFactor;
  }

  void FailEach(const Operation& operation,
                const std::vector<FaultKind>& kinds = {FaultKind::kFail, FaultKind::kDisconnect}) {
    constexpr uint64_t kMost = 3000;
    // What is made once is there now: connections between memory nodes, too.
    (void)FailOne({.prepare = Fill, .attempt = CompactAll}, kMost, FaultKind::kFail);
    (void)FailOne(operation, kMost, FaultKind::kFail);
    const ProcessUse before = ProcessUse::Now();
    for (const FaultKind kind : kinds) {
      uint64_t n = 1;
      for (; n < kMost; n += Stride()) {
        SCOPED_TRACE(testing::Message() << "N=" << n << " kind=" << static_cast<int>(kind));
        const bool met = FailOne(operation, n, kind);
        if (HasFailure()) return;
        if (!met) break;
      }
      EXPECT_LT(n, kMost);
      RecordProperty("Points" + std::to_string(static_cast<int>(kind)), static_cast<int>(n - 1));
    }
    before.ExpectAgain();
  }

  // An open database with tables, a few of each key's versions, and something in its memtables.
  static Status Fill(FaultWorld* world) {
    DLSM_RETURN_IF_ERROR(world->Open());
    DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->db().get()));
    DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
    world->keys().NoteFlushed();
    DLSM_RETURN_IF_ERROR(world->keys().Write(world->db().get(), 1, 30, 3));
    return Status::OK();
  }
  static Status CompactAll(FaultWorld* world) {
    world->db()->CompactRange(nullptr, nullptr);
    return world->db()->WaitForBackgroundWork();
  }
  static Status FillAndFlush(FaultWorld* world) {
    DLSM_RETURN_IF_ERROR(Fill(world));
    DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
    world->keys().NoteFlushed();
    return world->db()->WaitForBackgroundWork();
  }
  static Status FillAndClose(FaultWorld* world) {
    DLSM_RETURN_IF_ERROR(Fill(world));
    return world->Close();
  }

  TestNodes nodes_;
  uint64_t databases_ = 0;
};

const std::vector<FaultKind> kWriteFaults = {FaultKind::kFail, FaultKind::kHalfWrite,
                                             FaultKind::kDisconnect};

Status OpenIfClosed(FaultWorld* world) {
  return world->db() != nullptr ? Status::OK() : world->Open();
}

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
  Options options = nodes_.With(OptionsOf(GetParam()));
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

// -------- Followers and other owners

void Publish(Options* options) { options->publish_interval_ms = 5; }

Options FollowerOptions(Options options) {
  options.publish_interval_ms = 0;
  options.follow_interval_ms = 0;
  return options;
}

// Until the follower shows this. Rests in between: each look is an operation that may fail, and
// there shall be an end to them.
Status CatchUpTo(DB* follower, const std::string& key, const std::string& value) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until) {
    DLSM_RETURN_IF_ERROR(follower->TryCatchUp());
    std::string found;
    const Status status = follower->Get(ReadOptions(), key, &found);
    if (!status.ok() && !status.IsNotFound()) return status;
    if (status.ok() && found == value) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Status::NotFound("the follower does not get on", key);
}

// The owner is well.
Status FillWithOwner(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(DB::Open(world->CleanOptions(), world->name(), &world->db()));
  DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->db().get()));
  DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
  return world->db()->Put(WriteOptions(), VersionedKeys::kMark, "1");
}

TEST_P(FailNthTest, OpenFollower) {
  FailEach({.prepare = FillWithOwner,
            .attempt =
                [](FaultWorld* world) {
                  if (world->other() != nullptr) return Status::OK();
                  DLSM_RETURN_IF_ERROR(DB::OpenFollower(FollowerOptions(world->options()),
                                                        world->name(), &world->other()));
                  const Status status = CatchUpTo(world->other().get(), VersionedKeys::kMark, "1");
                  // What could not be told ends with its lease.
                  world->other()->Close().PermitUncheckedError();
                  world->other().reset();
                  return status;
                },
            .change = Publish});
}

TEST_P(FailNthTest, TryCatchUp) {
  FailEach({.prepare =
                [](FaultWorld* world) {
                  DLSM_RETURN_IF_ERROR(FillWithOwner(world));
                  return DB::OpenFollower(FollowerOptions(world->options()), world->name(),
                                          &world->other());
                },
            .attempt =
                [](FaultWorld* world) {
                  return CatchUpTo(world->other().get(), VersionedKeys::kMark, "1");
                },
            .change = Publish});
}

// The follower is well; what the owner publishes is not.
TEST_P(FailNthTest, Publication) {
  FailEach(
      {.prepare = Fill,
       .attempt =
           [](FaultWorld* world) {
             static int marks = 0;
             const std::string mark = std::to_string(++marks);
             DLSM_RETURN_IF_ERROR(world->db()->Put(WriteOptions(), VersionedKeys::kMark, mark));
             std::unique_ptr<DB> follower;
             DLSM_RETURN_IF_ERROR(DB::OpenFollower(FollowerOptions(world->CleanOptions()),
                                                   world->name(), &follower));
             DLSM_RETURN_IF_ERROR(CatchUpTo(follower.get(), VersionedKeys::kMark, mark));
             return follower->Close();
           },
       .change = Publish},
      kWriteFaults);
}

TEST_P(FailNthTest, TakeOver) {
  FailEach(
      {.prepare =
           [](FaultWorld* world) {
             DLSM_RETURN_IF_ERROR(DB::Open(world->CleanOptions(), world->name(), &world->other()));
             DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->other().get()));
             return world->other()->Flush(FlushOptions());
           },
       .attempt =
           [](FaultWorld* world) {
             if (world->db() != nullptr) return Status::OK();
             Options options = world->options();
             options.take_over = true;
             return DB::Open(options, world->name(), &world->db());
           }},
      kWriteFaults);
}

// -------- The rest

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
    testing::Values(Shape{"OneNode", "tcp", 1, 1, CompactionPlace::kMemoryNode, 1},
                    Shape{"MergesHere", "shm", 1, 1, CompactionPlace::kComputeNode, 3},
                    Shape{"ShardsOverNodes", "tcp", 2, 3, CompactionPlace::kMemoryNode, 7}),
    [](const testing::TestParamInfo<Shape>& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace dlsm
