// A decorator for who reads memory that may be reused: nothing that was transferred is handed out
// unless a guard says, after the transfer, that the memory was still what it was taken for.
#pragma once

#include <memory>

#include "dLSM/status.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Thread-safe.
class TransferGuard {
 public:
  virtual ~TransferGuard() = default;
  // An error says why what has been transferred up to now must not be used.
  virtual Status Check() const = 0;
};

// Posts and waits fail with the guard's error where it has one; nothing is read in place. The queue
// pair is not closed by that: the guard may be content again later.
std::unique_ptr<FabricConnection> GuardTransfers(std::shared_ptr<const TransferGuard> guard,
                                                 std::unique_ptr<FabricConnection> inner);

}  // namespace dlsm
