// How a process of the simulation connects to its memory nodes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "benchmarks/simulation/simulated_memory_node.h"
#include "benchmarks/simulation/simulated_network.h"
#include "util/rpc/node_connection.h"

namespace dlsm::simulation {

// By "host:port". Owned by the simulation.
using SimulatedNodes = std::map<std::string, SimulatedMemoryNode*>;

class SimulatedConnector final : public NodeConnector {
 public:
  // `network` and `nodes` outlive it and its connections.
  SimulatedConnector(SimulatedNetwork* network, const SimulatedNodes* nodes,
                     std::shared_ptr<SimulatedHost> host)
      : network_(network), nodes_(nodes), host_(std::move(host)) {}

  Status Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                 Deadline deadline, std::unique_ptr<NodeConnection>* connection) override;

 private:
  SimulatedNetwork* const network_;
  const SimulatedNodes* const nodes_;
  const std::shared_ptr<SimulatedHost> host_;
};

}  // namespace dlsm::simulation
