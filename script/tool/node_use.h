// dlsm_tool nodes: what the memory nodes hold and have spent, whatever databases they serve.
#pragma once

#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/cluster_config.h"
#include "util/rpc/node_connection.h"

namespace dlsm::tool {

struct NodeUseOptions {
  std::vector<HostPort> memory_nodes;
  Credentials credentials;
  std::chrono::milliseconds timeout{5000};  // For each node to answer.
};

// A line for each memory node, "host:port name value name value...", or "host:port: cause" for one
// that does not answer. All are asked; the first error is returned.
Status ShowNodeUse(const NodeUseOptions& options, std::ostream* out);

}  // namespace dlsm::tool
