// One simulated memory node, for tests of what processes do that use it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "benchmarks/simulation/simulated_connector.h"
#include "benchmarks/simulation/simulated_memory_node.h"
#include "benchmarks/simulation/simulated_network.h"
#include "benchmarks/simulation/simulated_scheduler.h"
#include "dLSM/options.h"
#include "util/status_testing.h"

namespace dlsm::simulation {

inline void Unexpected(const std::string& why) { FAIL() << why; }

// One memory node, and as many processes as connect to it.
class Cluster {
 public:
  explicit Cluster(uint64_t seed, bool has_disk = false, uint64_t bytes = uint64_t{32} << 20)
      : scheduler_(SchedulerOf(seed), Unexpected), network_(NetworkOf(seed), &scheduler_) {
    SimulatedMemoryNode::Config config;
    config.node.node = NodeId{1};
    config.cut_off_fails_one_in = 0;
    config.has_disk = has_disk;
    config.bytes = bytes;
    node_ = std::make_unique<SimulatedMemoryNode>(config, &network_);
    nodes_["node:7"] = node_.get();
  }

  void Run(const std::function<void()>& body) {
    scheduler_.Run([&] {
      ASSERT_OK(node_->Start());
      body();
      node_->Kill();
    });
  }

  std::shared_ptr<SimulatedHost> NewHost() { return std::make_shared<SimulatedHost>(); }
  void Kill(SimulatedHost* host) {
    host->alive = false;
    node_->LoseHost(host);
  }
  // With a disk it goes on where it was.
  void RestartNode() {
    node_->Kill();
    ASSERT_OK(node_->Start());
  }
  void StopDiskAfter(uint64_t calls) { node_->StopDiskAfter(calls); }
  bool disk_has_stopped() const { return node_->disk_has_stopped(); }
  // The disk forgets what was not synchronised, and the memory node starts in another boot.
  void LosePower() {
    node_->Kill();
    node_->LosePower();
    ASSERT_OK(node_->Start());
  }
  void FillDisk(std::chrono::nanoseconds duration) { node_->FillDisk(duration); }
  void BreakConnections() { node_->BreakConnections(); }
  Options OptionsOn(const std::shared_ptr<SimulatedHost>& host) {
    Options options;
    options.create_if_missing = true;
    options.memory_nodes = "node:7";
    options.node_connector = std::make_shared<SimulatedConnector>(&network_, &nodes_, host);
    options.write_buffer_size = 64 << 10;
    options.max_write_buffer_number = 2;
    options.max_background_flushes = 1;
    options.operation_timeout_ms = 2000;
    options.log = LogLevel::kNone;
    return options;
  }
  SimulatedNetwork& network() { return network_; }
  MemoryNode& node() { return node_->node(); }
  const SimulatedScheduler& scheduler() const { return scheduler_; }
  std::shared_ptr<NodeConnector> ConnectorOf(const std::shared_ptr<SimulatedHost>& host) {
    return std::make_shared<SimulatedConnector>(&network_, &nodes_, host);
  }

 private:
  static SimulatedScheduler::Config SchedulerOf(uint64_t seed) {
    SimulatedScheduler::Config config;
    config.seed = seed;
    config.switch_one_in = 2;
    return config;
  }
  static SimulatedNetwork::Config NetworkOf(uint64_t seed) {
    SimulatedNetwork::Config config;
    config.seed = seed;
    config.lost_one_in = 1;  // While the network is not whole: nothing arrives.
    return config;
  }

  SimulatedScheduler scheduler_;
  SimulatedNetwork network_;
  std::unique_ptr<SimulatedMemoryNode> node_;
  SimulatedNodes nodes_;
};

}  // namespace dlsm::simulation
