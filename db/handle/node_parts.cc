#include "db/handle/node_parts.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "db/nodes/memory_node_session.h"
#include "db/nodes/placed_manifest_store.h"
#include "db/nodes/shard_map.h"
#include "db/tree/manifest.h"
#include "util/log.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint64_t kFirstManifest = 1;

// What cannot be read may name any.
bool NamesTables(const std::string& part, const std::string& manifest) {
  if (manifest.empty()) return false;
  if (IsShardTablesName(part)) {
    LiveList list;
    return !list.Decode(manifest).ok() || !list.spans.empty();
  }
  const auto first_is_enough = [](const TableMeta&, TableRef*) { return Status::Aborted("one"); };
  Manifest decoded;
  std::vector<Level> levels;
  return !ManifestCodec::Decode(manifest, first_is_enough, &decoded, &levels).ok();
}

bool IsInUse(const std::string& part, const MemoryNodeSession& session) {
  // To destroy a list that names no tables loses none, however often it was put: its database, if
  // it still has one, begins it anew. But who follows that can read nothing until its owner has
  // opened and published it again.
  if (!IsShardTablesName(part) && session.manifest_version() > kFirstManifest) return true;
  return NamesTables(part, session.manifest());
}

// For the first shard, and for parts, of a database that is not at its home.
class Search {
 public:
  Search(const Options& options, const std::string& database, const MemoryNodeLink& home)
      : options_(options), database_(database), home_contents_(home.peer().contents) {}

  // InvalidArgument if the first shard is at `node`.
  Status LookAt(const std::string& node, RpcClient* rpc, const FabricPeer& peer) {
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, database_, rpc, &parts));
    // The home by another address has what is just being made.
    if (parts.first_shard && peer.contents != home_contents_)
      return FirstShardIsAt(database_, node);
    if (parts.others.empty()) return Status::OK();
    found_ = true;
    std::vector<std::string> in_use;
    DLSM_RETURN_IF_ERROR(FindPartsInUse(options_, parts.others, node, &in_use, /*waits=*/true));
    if (in_use.empty() || !verdict_.ok()) return Status::OK();
    verdict_ = Status::InvalidArgument(
        "memory node " + node + " has parts of a database " + database_ +
            ", whose first shard is on none of the memory nodes that are named",
        "name them as when it was made; if that shard was lost with its memory node, DestroyDB "
        "removes the rest");
    verdict_.PermitUncheckedError();  // Another memory node may say something graver.
    return Status::OK();
  }

  bool found() const { return found_; }
  // Once all have been looked at.
  const Status& verdict() const { return verdict_; }

 private:
  const Options& options_;
  const std::string& database_;
  const ContentsId home_contents_;
  bool found_ = false;
  Status verdict_;
};

}  // namespace

Status FirstShardIsAt(const std::string& database, const std::string& node) {
  return Status::InvalidArgument(
      "database " + database + " has its first shard on memory node " + node,
      "name the memory nodes as when it was made, in the same order, and compute_node_id, too");
}

Status ListParts(const Options& options, const std::string& database, RpcClient* rpc,
                 NodeParts* parts) {
  *parts = NodeParts();
  std::string bytes;
  DLSM_RETURN_IF_ERROR(
      rpc->Call(Method::kListDatabases, Slice(), &bytes,
                Deadline::In(std::chrono::milliseconds(options.operation_timeout_ms))));
  ListDatabasesReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(bytes));
  for (ListDatabasesReply::Entry& entry : reply.databases) {
    if (entry.name == database) parts->first_shard = entry.incarnation;
    if (!IsPartOf(entry.name, database)) continue;
    parts->others.push_back({std::move(entry.name), entry.incarnation});
  }
  return Status::OK();
}

// They are closed together: when a client has closed its last session, memory nodes take its access
// away, and open no other over that connection.
Status FindPartsInUse(const Options& requested, const std::vector<NodePart>& parts,
                      const std::string& node, std::vector<std::string>* in_use, bool waits) {
  in_use->clear();
  Options options = requested;
  options.create_if_missing = false;
  options.error_if_exists = false;
  options.take_over = false;
  std::unique_ptr<NodeConnection> connection;
  DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options, node, &connection));
  if (!waits) options.open_timeout_ms = 0;
  std::vector<std::unique_ptr<MemoryNodeSession>> sessions;
  for (const NodePart& part : parts) {
    std::unique_ptr<MemoryNodeSession> session;
    const Status opened = MemoryNodeSession::Open(options, part.name, &connection->rpc(), &session);
    if (opened.IsInvalidArgument()) continue;  // It has gone with the session that was making it.
    DLSM_RETURN_IF_ERROR(opened);
    if (IsInUse(part.name, *session)) in_use->push_back(part.name);
    sessions.push_back(std::move(session));
  }
  Status first_error;
  for (const auto& session : sessions) KeepFirstError(session->Close(), &first_error);
  return first_error;
}

// Memory nodes that get nothing need not answer, unless there is something to be destroyed.
Status CheckNoOther(const Options& options, const std::string& database,
                    const std::vector<MemoryNodeLink*>& used,
                    const std::vector<std::string>& named) {
  Search search(options, database, *used.front());
  std::vector<std::string> looked_at;
  for (MemoryNodeLink* const link : used) {
    DLSM_RETURN_IF_ERROR(search.LookAt(link->node(), &link->rpc(), link->peer()));
    looked_at.push_back(link->node());
  }
  if (!search.found()) return Status::OK();
  for (const std::string& node : named) {
    if (std::find(looked_at.begin(), looked_at.end(), node) != looked_at.end()) continue;
    std::unique_ptr<NodeConnection> connection;
    DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options, node, &connection));
    DLSM_RETURN_IF_ERROR(search.LookAt(node, &connection->rpc(), connection->peer()));
    looked_at.push_back(node);
  }
  return search.verdict();
}

Status DestroyLeftover(const Options& options, const NodePart& part, RpcClient* rpc) {
  const uint64_t manifest_version_max = IsShardTablesName(part.name) ? UINT64_MAX : kFirstManifest;
  return MemoryNodeSession::DestroyUnused(options, part.name, part.incarnation,
                                          manifest_version_max, rpc);
}

Status CheckNoNamesake(const Options& requested, const std::string& database,
                       const MemoryNodeLink& home, const std::vector<std::string>& named) {
  constexpr uint64_t kPatienceMs = 1000;
  Options options = requested;
  options.open_timeout_ms = std::min(options.open_timeout_ms, kPatienceMs);
  options.operation_timeout_ms = std::min(options.operation_timeout_ms, kPatienceMs);
  for (const std::string& node : named) {
    if (node == home.node()) continue;
    std::unique_ptr<NodeConnection> connection;
    NodeParts parts;
    Status asked = ConnectToMemoryNode(options, node, &connection);
    if (asked.ok()) asked = ListParts(options, database, &connection->rpc(), &parts);
    if (!asked.ok()) {
      Log().Warn("memory node {} cannot be asked whether it has a database \"{}\": {}", node,
                 database, asked.ToString());
    } else if (parts.first_shard && connection->peer().contents != home.peer().contents) {
      return FirstShardIsAt(database, node);  // And that is not the home by another address.
    }
  }
  return Status::OK();
}

}  // namespace dlsm
