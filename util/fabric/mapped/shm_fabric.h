// The memory node is another process on this machine: its region files are mapped here.
#pragma once

#include <memory>

#include "util/fabric/fabric.h"

namespace dlsm {

// The mapped memory stays readable after the memory node is gone: its death shows in calls to it,
// not in transfers. `numa_node`: of transfer buffers.
Status ConnectShm(const FabricPeer& peer, int numa_node,
                  std::unique_ptr<FabricConnection>* connection);

}  // namespace dlsm
