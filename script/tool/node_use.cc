#include "script/tool/node_use.h"

#include <fmt/core.h>

#include <memory>

#include "util/rpc/auth/hello.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/rpc_client.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

Status Ask(const HostPort& node, const NodeUseOptions& options, NodeStatisticsReply* statistics) {
  const Deadline deadline = Deadline::In(options.timeout);
  NodeInfo info;
  std::unique_ptr<NodeRpcClient> client;
  DLSM_RETURN_IF_ERROR(NodeRpcClient::Connect({node.host, node.port}, options.credentials,
                                              "dlsm_tool nodes", deadline, &info, &client));
  std::string reply;
  DLSM_RETURN_IF_ERROR(client->Call(Method::kNodeStatistics, Slice(), &reply, deadline));
  return statistics->Decode(reply);
}

}  // namespace

Status ShowNodeUse(const NodeUseOptions& options, std::ostream* out) {
  if (options.memory_nodes.empty()) {
    return Status::InvalidArgument(
        "nodes shows memory nodes: name them with --memory_nodes or "
        "--config");
  }
  Status first_error;
  for (const HostPort& node : options.memory_nodes) {
    NodeStatisticsReply now;
    Status status = Ask(node, options, &now);
    if (!status.ok()) {
      *out << fmt::format("{}: {}\n", node.ToString(), status.ToString());
      if (first_error.ok()) first_error = std::move(status);
      continue;
    }
    *out << fmt::format(
        "{} capacity {} used {} largest-free {} databases {} sessions {} merges-done {} "
        "merges-running {} merges-queued {} cpu-micros {} peak-rss {}\n",
        node.ToString(), now.capacity_bytes, now.used_bytes, now.largest_free_bytes, now.databases,
        now.sessions, now.merges_done, now.merges_running, now.merges_queued, now.cpu_micros,
        now.peak_rss_bytes);
  }
  return first_error;
}

}  // namespace dlsm::tool
