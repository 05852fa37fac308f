#include "benchmarks/simulation/simulated_connector.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "benchmarks/simulation/simulated_queue_pair.h"
#include "benchmarks/simulation/simulated_rpc.h"
#include "port/clock.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/status_macros.h"

namespace dlsm::simulation {
namespace {

constexpr auto kRetryDelay = std::chrono::milliseconds(100);

}  // namespace

Status SimulatedConnector::Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                                   Deadline deadline, std::unique_ptr<NodeConnection>* connection) {
  const auto found = nodes_->find(fmt::format("{}:{}", address.host, address.port));
  if (found == nodes_->end()) return Status::InvalidArgument("there is no such memory node");
  SimulatedMemoryNode* const node = found->second;
  std::shared_ptr<ControlLink> link;
  FabricPeer peer;
  for (;;) {
    port::SleepUntil(std::min(port::Clock::now() + 3 * network_->Delay(), deadline.time_point()));
    const Status status = node->Accept(host_, options.client_name, "", &link, &peer);
    if (status.ok()) break;
    if (!host_->alive || deadline.Passed()) return status;
    port::SleepUntil(std::min(port::Clock::now() + kRetryDelay, deadline.time_point()));
  }
  const std::shared_ptr<ServedMemory> memory = node->memory();
  if (memory == nullptr || memory->peer().boot != peer.boot) {
    link->Break({}, {});
    return Status::IOError("the memory node went away during the hello");
  }
  auto fabric = DecorateFabric(
      options.fabric,
      std::make_unique<SimulatedFabricConnection>(
          network_, host_, memory, [node] { return node->memory(); }, peer.data_token));
  auto rpc = std::make_unique<SimulatedRpcClient>(network_, node, host_, options.client_name,
                                                  std::move(link), peer);
  *connection =
      std::make_unique<NodeConnection>(std::move(rpc), std::move(peer), std::move(fabric));
  return Status::OK();
}

}  // namespace dlsm::simulation
