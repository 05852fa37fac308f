// The memory node lives in this process: its regions are found in LocalRegions and stay the memory
// node's, which must outlive the connection.
#pragma once

#include <memory>

#include "util/fabric/fabric.h"

namespace dlsm {

// `numa_node`: of transfer buffers.
Status ConnectLocal(const FabricPeer& peer, int numa_node,
                    std::unique_ptr<FabricConnection>* connection);

}  // namespace dlsm
