// Faults around any fabric, as a FaultInjector decides. Every transfer passes through it: Direct()
// offers nothing.
#pragma once

#include <memory>

#include "util/fabric/decorators/fault_injector.h"
#include "util/fabric/fabric.h"

namespace dlsm {

std::unique_ptr<FabricConnection> InjectFaults(std::shared_ptr<FaultInjector> faults,
                                               std::unique_ptr<FabricConnection> inner);

}  // namespace dlsm
