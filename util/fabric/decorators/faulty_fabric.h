// Faults around any fabric, as a FaultInjector decides. Every transfer passes through it: Direct()
// offers nothing.
#pragma once

#include <memory>

#include "util/fabric/fabric.h"
#include "util/fabric/fault_injector.h"

namespace dlsm {

std::unique_ptr<FabricConnection> InjectFaults(std::shared_ptr<FaultInjector> faults,
                                               std::unique_ptr<FabricConnection> inner);

}  // namespace dlsm
