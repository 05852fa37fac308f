// Whether a memory node can be reached, and how fast each fabric to it is.
#pragma once

#include <string>
#include <vector>

#include "script/tool/finding.h"
#include "util/fabric/fabric.h"
#include "util/rpc/node_connection.h"

namespace dlsm::tool {

// Its control port, version, secret, and what it has left. *reachable: the fabrics may be tried.
Findings CheckNode(const NodeAddress& address, const Credentials& credentials, bool* reachable);

// Reads 512 bytes many times and 1 MiB some times, one-sided; writes nothing. A client of the
// memory node's access list gets as far as to where it could read. `fabric` may be one that the
// memory node does not serve: `required` tells whether that is bad.
Finding CheckFabric(const NodeAddress& address, const Credentials& credentials,
                    const FabricOptions& fabric, bool required);

}  // namespace dlsm::tool
