// dlsm_tool schedule: shows how memory nodes schedule the merges of all their databases, or changes
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/cluster_config.h"
#include "util/rpc/node_connection.h"

namespace dlsm::tool {

struct MergeScheduleOptions {
  std::vector<HostPort> memory_nodes;
  Credentials credentials;
  // What to change; nothing: it is only shown.
  std::string schedule;
  std::optional<uint64_t> bytes_per_second;
};

// One memory node after the other, a line for each; ends at the first that fails.
Status ShowMergeSchedules(const MergeScheduleOptions& options, std::ostream* out);

}  // namespace dlsm::tool
