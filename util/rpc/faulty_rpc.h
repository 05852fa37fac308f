// Faults of calls, as a FaultInjector decides: what the fabric's transfers suffer from
// util/fabric/decorators/faulty_fabric.h.
#pragma once

#include <memory>

#include "dLSM/status.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {

// `inner` itself where `faults` is null.
std::unique_ptr<RpcClient> InjectCallFaults(std::shared_ptr<FaultInjector> faults,
                                            std::unique_ptr<RpcClient> inner);

// The error with which a connection is to fail before it is made; OK: none. `faults` may be null.
Status InjectConnectFault(const std::shared_ptr<FaultInjector>& faults);

}  // namespace dlsm
