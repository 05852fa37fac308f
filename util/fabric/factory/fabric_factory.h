// Makes the connection that the options ask for, decorators included.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "util/fabric/fabric.h"
#include "util/fabric/verbs/verbs_options.h"

namespace dlsm {

class FaultInjector;
class TransferGuard;

struct FabricOptions {
  FabricKind kind = FabricKind::kLocal;
  VerbsOptions verbs;  // For kVerbs.
  // For kTcp: how long a wait for an answer may poll before it sleeps; see adaptive_poll.h.
  std::chrono::microseconds tcp_poll{0};
  // For kTcp: whether threads may read over a shared connection; see tcp_read_sharing.h.
  bool tcp_share_reads = false;
  // That transfer buffers prefer. kNumaNodeOfDevice: with kVerbs that of the device, if this
  // process may use it; with the others none.
  int numa_node = kNoNumaNode;

  // A network that this machine does not have: every Wait() lasts at least `simulated_rtt_ns` from
  // the doorbell plus the bytes' time at `simulated_gbit_per_second`. 0: not simulated.
  uint64_t simulated_rtt_ns = 0;
  double simulated_gbit_per_second = 0;

  // Decides about every post and wait; null: no faults. Shared by all queue pairs.
  std::shared_ptr<FaultInjector> faults;

  // Asked about every transfer, see guarded_fabric.h; null: all are good.
  std::shared_ptr<const TransferGuard> guard;
};

// Whether this machine has what the verbs fabric needs; if not, why, and what to do.
Status CheckVerbsDevice(const VerbsOptions& options);
// And besides that atomics, without which no database can be opened: devices of iWARP have none.
Status CheckVerbsAtomics(const VerbsOptions& options);

// Puts around a connection what the options ask for besides its kind.
std::unique_ptr<FabricConnection> DecorateFabric(const FabricOptions& options,
                                                 std::unique_ptr<FabricConnection> plain);

Status ConnectFabric(const FabricOptions& options, const FabricPeer& peer, Deadline deadline,
                     std::unique_ptr<FabricConnection>* connection);

}  // namespace dlsm
