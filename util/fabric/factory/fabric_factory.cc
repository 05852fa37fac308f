#include "util/fabric/factory/fabric_factory.h"

#include <fmt/core.h>

#include <utility>

#include "util/fabric/decorators/faulty_fabric.h"
#include "util/fabric/decorators/guarded_fabric.h"
#include "util/fabric/decorators/simulated_fabric.h"
#include "util/fabric/mapped/local_fabric.h"
#include "util/fabric/mapped/shm_fabric.h"
#include "util/fabric/tcp/tcp_connect.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_device.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// No fabric needs the deadline yet: all resolve or map here, and tcp and verbs connect with the
// first queue pair.
Status ConnectPlain(const FabricOptions& options, const FabricPeer& peer, Deadline /*deadline*/,
                    std::unique_ptr<FabricConnection>* connection) {
  const int numa_node = options.numa_node == kNumaNodeOfDevice ? kNoNumaNode : options.numa_node;
  switch (options.kind) {
    case FabricKind::kLocal:
      return ConnectLocal(peer, numa_node, connection);
    case FabricKind::kShm:
      return ConnectShm(peer, numa_node, connection);
    case FabricKind::kTcp:
      return TcpConnection::Connect(peer, options.tcp_poll, options.tcp_share_reads, numa_node,
                                    connection);
    case FabricKind::kVerbs:
      return VerbsConnection::Connect(options.verbs, options.numa_node, peer, connection);
  }
  return Status::InvalidArgument(
      fmt::format("there is no fabric number {}", static_cast<int>(options.kind)));
}

bool IsSimulated(const FabricOptions& options) {
  return options.simulated_rtt_ns > 0 || options.simulated_gbit_per_second > 0;
}

}  // namespace

Status CheckVerbsDevice(const VerbsOptions& options) { return VerbsConnection::Check(options); }

Status CheckVerbsAtomics(const VerbsOptions& options) {
  return VerbsConnection::CheckAtomics(options);
}

std::unique_ptr<FabricConnection> DecorateFabric(const FabricOptions& options,
                                                 std::unique_ptr<FabricConnection> plain) {
  std::unique_ptr<FabricConnection> made = std::move(plain);
  if (IsSimulated(options)) {
    made = SimulateNetwork(
        SimulatedNetwork{options.simulated_rtt_ns, options.simulated_gbit_per_second},
        std::move(made));
  }
  // Outermost, so that a fault also costs what the network costs.
  if (options.faults != nullptr) made = InjectFaults(options.faults, std::move(made));
  if (options.guard != nullptr) made = GuardTransfers(options.guard, std::move(made));
  return made;
}

Status ConnectFabric(const FabricOptions& options, const FabricPeer& peer, Deadline deadline,
                     std::unique_ptr<FabricConnection>* connection) {
  std::unique_ptr<FabricConnection> plain;
  DLSM_RETURN_IF_ERROR(ConnectPlain(options, peer, deadline, &plain));
  *connection = DecorateFabric(options, std::move(plain));
  return Status::OK();
}

}  // namespace dlsm
