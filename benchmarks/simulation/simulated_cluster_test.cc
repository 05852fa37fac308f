// Databases on simulated memory nodes, for what only certain interleavings show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/simulation/cluster_testing.h"
#include "benchmarks/simulation/simulated_connector.h"
#include "benchmarks/simulation/simulated_memory_node.h"
#include "benchmarks/simulation/simulated_network.h"
#include "benchmarks/simulation/simulated_rpc.h"
#include "benchmarks/simulation/simulated_scheduler.h"
#include "benchmarks/simulation/simulation_run.h"
#include "dLSM/db.h"
#include "memory_node/accounts/own_memory.h"
#include "memory_node/merges/peer_nodes.h"
#include "port/clock.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/rpc/channel/rpc.h"
#include "util/status_testing.h"

namespace dlsm::simulation {
namespace {

using testing::HasSubstr;

// Answers hellos only, and gives each client another token.
class HelloServer final : public ControlServer {
 public:
  explicit HelloServer(SimulatedNetwork* network) : network_(network) {}

  Status Accept(const std::shared_ptr<SimulatedHost>& host, const std::string& /*client_name*/,
                const std::string& token, std::shared_ptr<ControlLink>* link,
                FabricPeer* info) override {
    shown_.push_back(token);
    link_ = std::make_shared<ControlLink>(network_, host, RpcPeer());
    *link = link_;
    info->data_token = "given " + std::to_string(shown_.size());
    return Status::OK();
  }
  void BreakConnection() {
    link_->Break({}, {});
    port::SleepFor(std::chrono::milliseconds(1));
  }
  const std::vector<std::string>& shown() const { return shown_; }

 private:
  SimulatedNetwork* const network_;
  std::shared_ptr<ControlLink> link_;  // The last one.
  std::vector<std::string> shown_;
};

// Fails if a client that was given another token, because its own was revoked, goes on showing that
// one: it is given one more whenever it connects again, which real clients are not.
TEST(SimulatedClusterTest, AClientShowsTheTokenThatItWasGivenLast) {
  Cluster cluster(1);
  cluster.Run([&] {
    HelloServer server(&cluster.network());
    const auto host = cluster.NewHost();
    std::shared_ptr<ControlLink> link;
    FabricPeer peer;
    ASSERT_OK(server.Accept(host, "client", "", &link, &peer));
    SimulatedRpcClient client(&cluster.network(), &server, host, "client", link, peer);
    for (int times = 0; times < 2; ++times) {
      server.BreakConnection();
      std::string reply;
      const Deadline deadline = Deadline::In(std::chrono::seconds(1));
      EXPECT_TRUE(client.Call(Method::kGrant, "", &reply, deadline).IsTimedOut());
    }
    EXPECT_EQ(server.shown(), (std::vector<std::string>{"", "given 1", "given 2"}));
  });
}

// Fails if a memory node that reads another one's tables for merges goes on with a token that the
// other one does not know any more, because it was started again: then a merge fails.
TEST(SimulatedClusterTest, APeerThatWasStartedAgainIsReached) {
  Cluster cluster(1, /*has_disk=*/true);
  cluster.Run([&] {
    PeerNodes::Config config;
    config.node = NodeId{2};
    config.connector = cluster.ConnectorOf(cluster.NewHost());
    PeerNodes peers(config);
    const std::vector<MergePeer> named = {{NodeId{1}, cluster.node().boot(), "node", 7}};
    for (int times = 0; times < 2; ++times) {
      OwnMemory own(config.node, RegionId{}, nullptr, 0);
      PeerNodes::Ways ways(&own);
      ASSERT_OK(peers.Connect(named, &ways));
      QueuePair* queue_pair = nullptr;
      ASSERT_OK(ways.ForThisThread(NodeId{1}, &queue_pair));
      cluster.RestartNode();
    }
  });
}

// Fails if a writer that waits for a full disk is not told which one, or does not go on when it has
// room.
TEST(SimulatedClusterTest, AFullDiskIsNamed) {
  Cluster cluster(1, /*has_disk=*/true);
  cluster.Run([&] {
    Options options = cluster.OptionsOn(cluster.NewHost());
    options.write_stall_timeout_ms = 5000;
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, "db", &db));
    cluster.FillDisk(std::chrono::seconds(60));
    const std::string value(16 << 10, 'v');
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) {
      status = db->Put(WriteOptions(), std::to_string(i), value);
    }
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.ToString(), HasSubstr("/data of memory node 1: no space left"));
    port::SleepFor(std::chrono::seconds(60));
    ASSERT_OK(db->WaitForBackgroundWork());
    ASSERT_OK(db->Put(WriteOptions(), "last", value));
    ASSERT_OK(db->Close());
  });
}

// `write(db, key)` returns OK once what it has written is safe. Several threads call it at once,
// and the first that returns has the process killed.
void ExpectToOutliveItsProcess(const std::function<Status(DB*, const std::string&)>& write) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(seed);
    cluster.Run([&] {
      const auto host = cluster.NewHost();
      std::unique_ptr<DB> db;
      ASSERT_OK(DB::Open(cluster.OptionsOn(host), "db", &db));
      constexpr size_t kThreads = 3;
      std::array<bool, kThreads> safe{};
      std::vector<port::Thread> threads;
      for (size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
          write(db.get(), "before" + std::to_string(i)).PermitUncheckedError();
          safe[i] = write(db.get(), std::to_string(i)).ok() && host->alive;
          if (host->alive) cluster.Kill(host.get());
        });
      }
      for (port::Thread& thread : threads) thread.join();
      db->Close().PermitUncheckedError();
      Options options = cluster.OptionsOn(cluster.NewHost());
      options.take_over = true;
      std::unique_ptr<DB> next;
      ASSERT_OK(DB::Open(options, "db", &next));
      for (size_t i = 0; i < kThreads; ++i) {
        if (!safe[i]) continue;
        std::string value;
        EXPECT_OK(next->Get(ReadOptions(), std::to_string(i), &value));
      }
      ASSERT_OK(next->Close());
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Fails if a flush returns while what its caller had written is not in a table: threads that flush
// at the same time must not take each other's memtables for their own.
TEST(SimulatedClusterTest, WhatWasFlushedOutlivesItsProcess) {
  ExpectToOutliveItsProcess([](DB* db, const std::string& key) {
    const Status written = db->Put(WriteOptions(), key, "value");
    return written.ok() ? db->Flush(FlushOptions()) : written;
  });
}

// The same of writes that ask for it.
TEST(SimulatedClusterTest, WhatWasWrittenWithSyncOutlivesItsProcess) {
  ExpectToOutliveItsProcess([](DB* db, const std::string& key) {
    WriteOptions options;
    options.sync = true;
    return db->Put(options, key, "value");
  });
}

// Fails if threads that wait for flushes keep each other awake, which burns processors for as long
// as the memory node does not answer.
TEST(SimulatedClusterTest, WhoWaitsForAFlushSleeps) {
  Cluster cluster(1);
  cluster.Run([&] {
    const auto host = cluster.NewHost();
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(cluster.OptionsOn(host), "db", &db));
    ASSERT_OK(db->Put(WriteOptions(), "key", "value"));
    cluster.network().SetWhole(false);
    const uint64_t before = cluster.scheduler().counts().steps;
    std::vector<port::Thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] { EXPECT_FALSE(db->Flush(FlushOptions()).ok()); });
    }
    for (port::Thread& thread : threads) thread.join();
    EXPECT_LT(cluster.scheduler().counts().steps - before, 6'000u);
    cluster.network().SetWhole(true);
    db->Close().PermitUncheckedError();
  });
}

// Fails if the simulated network does not do what the faults are there for: a reader that races a
// write must, under some seed, see a part of it.
TEST(SimulatedClusterTest, AReaderMaySeeHalfOfAWrite) {
  int torn = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Cluster cluster(seed);
    cluster.Run([&] {
      const auto connector = cluster.ConnectorOf(cluster.NewHost());
      std::unique_ptr<NodeConnection> connection;
      const Deadline deadline = Deadline::In(std::chrono::seconds(10));
      ASSERT_OK(connector->Connect({"node", 7}, {}, deadline, &connection));
      const RemoteSpan span{NodeId{1}, connection->peer().regions[0].id, 4096, 4096};
      port::Thread writer([&] {
        std::unique_ptr<QueuePair> queue_pair;
        ASSERT_OK(connection->fabric().NewQueuePair(deadline, &queue_pair));
        RegisteredBuffer buffer;
        ASSERT_OK(connection->fabric().NewBuffer(4096, &buffer));
        std::fill(buffer.data(), buffer.data() + 4096, 'w');
        Ticket ticket{};
        ASSERT_OK(queue_pair->PostWrite(buffer.span(), span, Purpose::kFlush, &ticket));
        ASSERT_OK(queue_pair->Wait(ticket, deadline));
      });
      std::unique_ptr<QueuePair> queue_pair;
      ASSERT_OK(connection->fabric().NewQueuePair(deadline, &queue_pair));
      RegisteredBuffer buffer;
      ASSERT_OK(connection->fabric().NewBuffer(4096, &buffer));
      for (int i = 0; i < 5; ++i) {
        Ticket ticket{};
        ASSERT_OK(queue_pair->PostRead(span, buffer.span(), Purpose::kRead, &ticket));
        ASSERT_OK(queue_pair->Wait(ticket, deadline));
        const auto written = std::count(buffer.data(), buffer.data() + 4096, 'w');
        if (written > 0 && written < 4096) ++torn;
      }
      writer.join();
      queue_pair.reset();
      connection.reset();
    });
  }
  EXPECT_GT(torn, 0);
}

// Fails if where memory lies, or anything else but the seed, decides something. One thing does: as
// many slots of threads are looked at as the process has had threads at once. So one run goes
// before; db_simulate gives each seed a process.
TEST(SimulatedClusterTest, ASeedRepeats) {
  for (uint64_t seed = 101; seed <= 105; ++seed) {
    std::array<SimulationCounts, 3> counts;
    for (SimulationCounts& each : counts) {
      SimulationConfig config;
      config.seed = seed;
      Simulation simulation(config, Unexpected);
      EXPECT_OK(simulation.Run(&each));
    }
    EXPECT_EQ(counts[1].trace, counts[2].trace) << seed;
    EXPECT_GT(counts[1].operations, 0u);
  }
}

}  // namespace
}  // namespace dlsm::simulation
