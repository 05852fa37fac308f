// A network that this machine does not have, around any fabric.
//
// A chain of requests with `bytes` in both directions together, whose doorbell rings at time t,
// completes at
//
//   max(t, link_free) + bytes / bandwidth + round-trip time
//
// where link_free is when the bytes of all chains before have passed; all queue pairs of a
// connection share the link. Wait() returns no sooner than that. Over memory that this process can
// address, a thread moves the larger transfers, as a network card does without the poster's
// processor (copy_thread.h). Transfers cannot be made through Direct(), because those would cost
// nothing; counts are those of the fabric inside.
#pragma once

#include <cstdint>
#include <memory>

#include "util/fabric/fabric.h"

namespace dlsm {

struct SimulatedNetwork {
  uint64_t rtt_ns = 0;
  double gbit_per_second = 0;  // 0: without limit.
  // What the thread that moves transfers moves even if it has to be woken, which takes longer than
  // to copy them here: for tests of what it does.
  uint64_t card_wakes_for_bytes = UINT64_MAX;
};

std::unique_ptr<FabricConnection> SimulateNetwork(const SimulatedNetwork& network,
                                                  std::unique_ptr<FabricConnection> inner);

}  // namespace dlsm
