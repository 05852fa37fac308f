#include "script/tool/merge_schedule.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>

#include "util/rpc/auth/hello.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/rpc_client.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

Status Ask(const HostPort& node, const MergeScheduleOptions& options,
           SetMergeScheduleReply* schedule) {
  SetMergeScheduleRequest request;
  request.schedule = options.schedule;
  request.sets_budget = options.bytes_per_second.has_value();
  request.bytes_per_second = options.bytes_per_second.value_or(0);
  NodeInfo info;
  std::unique_ptr<NodeRpcClient> client;
  DLSM_RETURN_IF_ERROR(NodeRpcClient::Connect({node.host, node.port}, options.credentials,
                                              "dlsm_tool schedule", Deadline::In(kTimeout), &info,
                                              &client));
  std::string reply;
  DLSM_RETURN_IF_ERROR(
      client->Call(Method::kSetMergeSchedule, request.Encode(), &reply, Deadline::In(kTimeout)));
  return schedule->Decode(reply);
}

}  // namespace

Status ShowMergeSchedules(const MergeScheduleOptions& options, std::ostream* out) {
  if (options.memory_nodes.empty()) {
    return Status::InvalidArgument(
        "schedule is of memory nodes: name them with --memory_nodes or "
        "--config");
  }
  for (const HostPort& node : options.memory_nodes) {
    SetMergeScheduleReply schedule;
    DLSM_RETURN_IF_ERROR(Ask(node, options, &schedule));
    const std::string budget =
        schedule.bytes_per_second == 0
            ? "no limit"
            : fmt::format("{:.1f} MB of input a second",
                          static_cast<double>(schedule.bytes_per_second) / (1 << 20));
    *out << fmt::format("{}:{} {}, {}\n", node.host, node.port, schedule.schedule, budget);
  }
  return Status::OK();
}

}  // namespace dlsm::tool
