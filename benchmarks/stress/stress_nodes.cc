#include "benchmarks/stress/stress_nodes.h"

#include <fmt/core.h>

#include "util/status_macros.h"

namespace dlsm::stress {

Status Nodes::Start(int count, const std::string& fabric, const Patience& patience) {
  for (int i = 0; i < count; ++i) {
    NodeServerOptions& options = options_.emplace_back();
    options.bytes = uint64_t{512} << 20;
    options.huge_pages = false;
    if (fabric == "verbs") options.fabric = FabricKind::kVerbs;
    options.node.node = NodeId{static_cast<uint32_t>(i + 1)};
    options.node.lease = patience.lease;
    options.node.grace = patience.grace;
    // At every other one merges go by steps, as in a memory node that is full.
    if (i % 2 == 1) options.node.free_bytes_told_max = uint64_t{1} << 20;
    DLSM_RETURN_IF_ERROR(NodeServer::Start(options, &servers_.emplace_back()));
    options.port = servers_.back()->port();
    addresses_ += fmt::format("{}127.0.0.1:{}", i == 0 ? "" : ",", servers_.back()->port());
  }
  return Status::OK();
}

uint64_t Nodes::used_bytes() const {
  uint64_t bytes = 0;
  for (const auto& server : servers_) bytes += server->node().Statistics().used_bytes;
  return bytes;
}

Status Nodes::CheckInvariants() const {
  for (const auto& server : servers_) {
    DLSM_RETURN_IF_ERROR(server->node().databases().CheckInvariants());
  }
  return Status::OK();
}

}  // namespace dlsm::stress
