// The memory node lives in this process: its regions are found in LocalRegions and stay the memory
// node's, which must outlive the connection.
#pragma once

#include <memory>

#include "util/fabric/fabric.h"

namespace dlsm {

Status ConnectLocal(const FabricPeer& peer, std::unique_ptr<FabricConnection>* connection);

}  // namespace dlsm
