#include "script/tool/quota.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <memory>

#include "util/rpc/auth/hello.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/rpc_client.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

constexpr auto kQuotaTimeout = std::chrono::seconds(5);

Status Ask(const HostPort& node, const QuotaOptions& options, ListDatabasesReply* databases) {
  NodeInfo info;
  std::unique_ptr<NodeRpcClient> client;
  DLSM_RETURN_IF_ERROR(NodeRpcClient::Connect({node.host, node.port}, options.credentials,
                                              "dlsm_tool quota", Deadline::In(kQuotaTimeout), &info,
                                              &client));
  std::string reply;
  if (options.bytes.has_value()) {
    SetQuotaRequest request;
    request.name = options.database;
    request.bytes = *options.bytes;
    DLSM_RETURN_IF_ERROR(
        client->Call(Method::kSetQuota, request.Encode(), &reply, Deadline::In(kQuotaTimeout)));
  }
  DLSM_RETURN_IF_ERROR(
      client->Call(Method::kListDatabases, Slice(), &reply, Deadline::In(kQuotaTimeout)));
  return databases->Decode(reply);
}

bool Concerns(const QuotaOptions& options, const std::string& name) {
  return options.database.empty() || name == options.database ||
         name.rfind(options.database + "#", 0) == 0;
}

}  // namespace

Status ParseQuota(const std::string& text, uint64_t* bytes) {
  *bytes = 0;
  if (text == "none") return Status::OK();
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *bytes);
  if (error == std::errc() && rest == end && *bytes > 0) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("--quota={}: none, or a number of bytes at each memory node", text));
}

Status ShowQuotas(const QuotaOptions& options, std::ostream* out) {
  if (options.memory_nodes.empty()) {
    return Status::InvalidArgument(
        "quota is of memory nodes: name them with --memory_nodes or --config");
  }
  if (options.bytes.has_value() && options.database.empty()) {
    return Status::InvalidArgument("--quota is of one database: name it with --db");
  }
  bool found = false;
  for (const HostPort& node : options.memory_nodes) {
    ListDatabasesReply reply;
    DLSM_RETURN_IF_ERROR(Ask(node, options, &reply));
    for (const ListDatabasesReply::Entry& each : reply.databases) {
      if (!Concerns(options, each.name)) continue;
      found = true;
      *out << fmt::format("{} {} bytes {} quota {}{}\n", node.ToString(), each.name, each.bytes,
                          each.quota_bytes == 0 ? "none" : std::to_string(each.quota_bytes),
                          each.open ? " open" : "");
    }
  }
  if (found || options.database.empty()) return Status::OK();
  if (options.bytes.has_value()) {
    *out << fmt::format("set for '{}', which no memory node named here has so far\n",
                        options.database);
    return Status::OK();
  }
  return Status::NotFound(
      fmt::format("no memory node named here has a database '{}'", options.database),
      "without --db all that they have are listed");
}

}  // namespace dlsm::tool
