#include "memory_node/call_rights.h"

#include <fmt/core.h>

#include "util/rpc/access_list.h"

namespace dlsm {
namespace {

Status Refused(const AccessRights& rights, const char* what, const std::string& database) {
  return Status::InvalidArgument(
      fmt::format("client '{}' may not {} database '{}'", rights.name(), what, database),
      "its line in the memory node's access file does not name it");
}

}  // namespace

Status CheckMayOwn(const RpcPeer& peer, const std::string& database) {
  if (peer.rights == nullptr || peer.rights->MayOwn(database)) return Status::OK();
  return Refused(*peer.rights, "own", database);
}

Status CheckMayRead(const RpcPeer& peer, const std::string& database) {
  if (peer.rights == nullptr || peer.rights->MayRead(database)) return Status::OK();
  return Refused(*peer.rights, "read", database);
}

Status CheckMayRule(const RpcPeer& peer) {
  if (peer.rights == nullptr) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("client '{}' may not change what concerns other databases too",
                  peer.rights->name()),
      "use the cluster's secret, without an access name");
}

void FilterFor(const RpcPeer& peer, ListDatabasesReply* list) {
  if (peer.rights == nullptr) return;
  std::erase_if(list->databases,
                [&](const auto& each) { return !peer.rights->MayRead(each.name); });
}

}  // namespace dlsm
