#include "memory_node/accounts/call_rights.h"

#include <fmt/core.h>

#include "util/rpc/auth/access_list.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status Refused(const AccessRights& rights, const char* what, const std::string& database) {
  return Status::InvalidArgument(
      fmt::format("client '{}' may not {} database '{}'", rights.name(), what, database),
      "its line in the memory node's access file does not name it");
}

// To compare a name with a line takes time by its length, and all transfers of clients with rights
// may have to wait for that. So one that no database has is not compared at all.
Status CheckLength(const std::string& database) {
  if (database.size() <= OpenDatabaseRequest::kNameBytesMax) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("a database's name has 1 to {} bytes", OpenDatabaseRequest::kNameBytesMax));
}

Status CheckMayRead(const RpcPeer& peer, const std::string& database) {
  if (peer.rights == nullptr) return Status::OK();
  DLSM_RETURN_IF_ERROR(CheckLength(database));
  if (peer.rights->MayRead(database)) return Status::OK();
  return Refused(*peer.rights, "read", database);
}

Status CheckMayRule(const RpcPeer& peer) {
  if (peer.rights == nullptr) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("client '{}' may not change what concerns other databases too",
                  peer.rights->name()),
      "use the cluster's secret, without an access name");
}

}  // namespace

Status CheckMayOwn(const RpcPeer& peer, const std::string& database) {
  if (peer.rights == nullptr) return Status::OK();
  DLSM_RETURN_IF_ERROR(CheckLength(database));
  if (peer.rights->MayOwn(database)) return Status::OK();
  return Refused(*peer.rights, "own", database);
}

Status CheckMayAsk(const RpcPeer& peer, const OpenDatabaseRequest& request) {
  return CheckMayOwn(peer, request.name);
}

Status CheckMayAsk(const RpcPeer& peer, const DestroyDatabaseRequest& request) {
  return CheckMayOwn(peer, request.name);
}

Status CheckMayAsk(const RpcPeer& peer, const OpenReaderRequest& request) {
  for (const std::string& name : request.databases) {
    DLSM_RETURN_IF_ERROR(CheckMayRead(peer, name));
  }
  return Status::OK();
}

Status CheckMayAsk(const RpcPeer& peer, const SetMergeScheduleRequest& request) {
  const bool changes = !request.schedule.empty() || request.sets_budget;
  return changes ? CheckMayRule(peer) : Status::OK();
}

Status CheckMayAsk(const RpcPeer& peer, const SetQuotaRequest&) { return CheckMayRule(peer); }

void FilterFor(const RpcPeer& peer, ListDatabasesReply* list) {
  if (peer.rights == nullptr) return;
  std::erase_if(list->databases,
                [&](const auto& each) { return !peer.rights->MayRead(each.name); });
}

}  // namespace dlsm
