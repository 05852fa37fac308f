// dlsm_tool quota: shows what databases have at memory nodes and may have there, or changes it.
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

struct QuotaOptions {
  std::vector<HostPort> memory_nodes;
  Credentials credentials;
  std::string database;           // To show, or change; empty: all are shown.
  std::optional<uint64_t> bytes;  // At each memory node; 0: none. Nothing: it is only shown.
};

// "none", or a number of bytes.
Status ParseQuota(const std::string& text, uint64_t* bytes);

// One memory node after the other, a line for each database there; ends at the first that fails.
Status ShowQuotas(const QuotaOptions& options, std::ostream* out);

}  // namespace dlsm::tool
