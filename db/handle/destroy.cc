// Destroying databases: the shards and their tables on other memory nodes first, the one with the
// map last, so that it can be repeated.
//
// Others may destroy the database meanwhile, and make it anew. That one is left whole, because each
// part is destroyed only as the one that was seen (DatabaseIncarnation), and what was seen while
// the first shard was there is that database's: who makes one makes its first shard before the
// others, and who destroys one destroys it after them.

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "db/handle/check_options.h"
#include "db/handle/node_parts.h"
#include "db/nodes/compute_range.h"
#include "db/nodes/memory_node_link.h"
#include "db/nodes/memory_node_session.h"
#include "db/nodes/shard_map.h"
#include "db/tree/manifest.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

class Destroyer {
 public:
  Destroyer(const Options& options, const std::string& name) : options_(options), name_(name) {
    options_.create_if_missing = false;
    options_.error_if_exists = false;
    options_.take_over = false;
  }

  Status Run() {
    std::vector<std::string> nodes;
    DLSM_RETURN_IF_ERROR(MemoryNodesOf(options_, &nodes));
    const std::string& home = nodes[options_.compute_node_id % nodes.size()];
    DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options_, home, &home_));
    bool there = false;
    DLSM_RETURN_IF_ERROR(FindFirstShard(&there));
    ShardMap map;
    if (there) {
      const Status found = FindMap(home, &map);
      // One that was never made to its end goes with the session that was making it.
      if (found.IsInvalidArgument()) DLSM_RETURN_IF_ERROR(IsStillThere(&there));
      if (there) DLSM_RETURN_IF_ERROR(found);
    }
    if (there) DLSM_RETURN_IF_ERROR(DestroyOthers(map, &there));
    if (there) DLSM_RETURN_IF_ERROR(DestroyTables(nodes, &there));
    if (!there) return SweepAll(home, nodes);
    return MemoryNodeSession::Destroy(options_, name_, first_shard_, &home_->rpc());
  }

 private:
  // What was seen at a memory node.
  struct Seen {
    std::unique_ptr<NodeConnection> connection;
    NodeParts parts;
    Status looked;  // What became of the attempt.
  };

  Status FindFirstShard(bool* there) {
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, name_, &home_->rpc(), &parts));
    *there = parts.first_shard.has_value();
    first_shard_ = parts.first_shard.value_or(DatabaseIncarnation{});
    return Status::OK();
  }

  // The one that was found; *there is as it was if that cannot be said.
  Status IsStillThere(bool* there) const {
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, name_, &home_->rpc(), &parts));
    *there = parts.first_shard == first_shard_;
    return Status::OK();
  }

  // A database that nobody can open is destroyed as if it had one shard.
  Status FindMap(const std::string& home, ShardMap* map) {
    std::unique_ptr<MemoryNodeSession> session;
    Options at_once = options_;
    at_once.open_timeout_ms = 0;
    DLSM_RETURN_IF_ERROR(MemoryNodeSession::Open(at_once, name_, &home_->rpc(), &session));
    const Status read = ReadMap(session->manifest(), home, map, &table_nodes_);
    if (!read.ok()) {
      Log().Warn("database \"{}\" is destroyed without its shards: {}", name_, read.ToString());
      map->nodes = {home};
      tables_are_anywhere_ = true;
    }
    return session->Close();
  }

  // All shards but the first. If that is no longer the one that was found, *there becomes false,
  // and none is destroyed: they may be another database's.
  Status DestroyOthers(const ShardMap& map, bool* there) const {
    std::map<std::string, Seen> nodes;
    for (size_t i = 1; i < map.count(); ++i) {
      const auto [at, added] = nodes.try_emplace(map.nodes[i]);
      if (!added) continue;
      at->second.looked = LookAt(map.nodes[i], &at->second);
      at->second.looked.PermitUncheckedError();  // It is each of its shards' below.
    }
    if (nodes.empty()) return Status::OK();
    DLSM_RETURN_IF_ERROR(IsStillThere(there));
    if (!*there) return Status::OK();
    Status first_error;
    for (size_t i = 1; i < map.count(); ++i) {
      const Status status = DestroyShard(ShardName(name_, i), nodes.at(map.nodes[i]));
      if (status.ok() || !first_error.ok()) continue;
      first_error = Status::FromCode(status.code(), "shard " + std::to_string(i) +
                                                        " is left, destroy the database again: " +
                                                        status.message().ToString());
    }
    return first_error;
  }

  Status LookAt(const std::string& node, Seen* seen) const {
    DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options_, node, &seen->connection));
    return ListParts(options_, name_, &seen->connection->rpc(), &seen->parts);
  }

  Status DestroyShard(const std::string& name, const Seen& seen) const {
    DLSM_RETURN_IF_ERROR(seen.looked);
    for (const NodePart& part : seen.parts.others) {
      if (part.name == name) return DestroyPart(part, /*used_too=*/true, &seen.connection->rpc());
    }
    return Status::OK();
  }

  // Unless `used_too`, one that has come into use since it was looked at is left, an error.
  Status DestroyPart(const NodePart& part, bool used_too, RpcClient* rpc) const {
    return used_too ? MemoryNodeSession::Destroy(options_, part.name, part.incarnation, rpc)
                    : DestroyLeftover(options_, part, rpc);
  }

  // Best effort at memory nodes that the database does not say it has tables on: what names any
  // there is another one's, whose first shard is elsewhere. *there: as in DestroyOthers().
  Status DestroyTables(std::vector<std::string> nodes, bool* there) const {
    Status first_error;
    const auto has_tables = [this](const std::string& node) {
      return std::any_of(table_nodes_.begin(), table_nodes_.end(),
                         [&node](const TableNode& each) { return each.address == node; });
    };
    for (const TableNode& node : table_nodes_) nodes.push_back(node.address);
    MakeUnique(&nodes);
    if (nodes.size() == 1) return Status::OK();
    for (const std::string& node : nodes) {
      const bool recorded = has_tables(node);
      const Status swept = SweepTables(node, /*all=*/recorded || tables_are_anywhere_, there);
      if (swept.ok() && !*there) break;
      if (swept.ok()) continue;
      if (!recorded) {
        Log().Warn("tables may be left at {}: {}", node, swept.ToString());
      } else if (first_error.ok()) {
        first_error =
            Status::FromCode(swept.code(), "tables are left, destroy the database again: " +
                                               swept.message().ToString());
      }
    }
    return first_error;
  }

  // Destroys what there is at `node` of shards' tables: all, or what has never been used.
  Status SweepTables(const std::string& node, bool all, bool* there) const {
    Seen seen;
    DLSM_RETURN_IF_ERROR(LookAt(node, &seen));
    std::vector<NodePart>& lists = seen.parts.others;
    std::erase_if(lists, [](const NodePart& part) { return !IsShardTablesName(part.name); });
    if (lists.empty()) return Status::OK();
    DLSM_RETURN_IF_ERROR(IsStillThere(there));
    if (!*there) return Status::OK();
    std::vector<std::string> used;
    if (!all) {
      DLSM_RETURN_IF_ERROR(FindPartsInUse(options_, lists, node, &used, /*waits=*/true));
    }
    std::erase_if(lists, [&used](const NodePart& part) { return Contains(used, part.name); });
    Status first_error;
    for (const NodePart& part : lists) {
      KeepFirstError(DestroyPart(part, /*used_too=*/all, &seen.connection->rpc()), &first_error);
    }
    return first_error;
  }

  // What is left at a memory node of a database whose first shard is on none.
  struct Remains {
    std::unique_ptr<NodeConnection> connection;
    std::vector<NodePart> parts;
    std::vector<std::string> in_use;  // The names of those of them.
  };

  // There is no database, but there may be parts of one: it was not made to its end, or its first
  // shard was lost with its memory node. Unless that is elsewhere, or somebody is making it:
  //
  //   1. All memory nodes have to say that they do not have the first shard.
  //   2. Each part is looked at: is it in use?
  //   3. All say once more that they do not have it. So the parts that are in use have lost it, and
  //      as long as they are there nobody makes the database over them (CheckNoOther).
  //   4. These are destroyed, and the others unless they have come into use since: each as the one
  //      that 1 has seen. Another one that has its name by now is that of a database that was made
  //      when somebody else had destroyed these.
  Status SweepAll(const std::string& home, std::vector<std::string> nodes) const {
    MakeUnique(&nodes);
    std::vector<Remains> all(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options_, nodes[i], &all[i].connection));
      DLSM_RETURN_IF_ERROR(ListRemains(home, nodes[i], &all[i].connection->rpc(), &all[i].parts));
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (all[i].parts.empty()) continue;
      const Status looked = FindPartsInUse(options_, all[i].parts, nodes[i], &all[i].in_use,
                                           /*waits=*/false);
      if (!looked.ok()) return ShardsAreLeft(nodes[i], looked);
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::vector<NodePart> still_there;
      DLSM_RETURN_IF_ERROR(ListRemains(home, nodes[i], &all[i].connection->rpc(), &still_there));
    }
    Status first_error;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Status destroyed = DestroyRemains(all[i]);
      if (!destroyed.ok()) KeepFirstError(ShardsAreLeft(nodes[i], destroyed), &first_error);
    }
    return first_error;
  }

  // An error if the first shard is at `node`.
  Status ListRemains(const std::string& home, const std::string& node, RpcClient* rpc,
                     std::vector<NodePart>* others) const {
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, name_, rpc, &parts));
    if (parts.first_shard && node != home) return FirstShardIsAt(name_, node);
    if (parts.first_shard) {
      return Status::Busy("database " + name_ + " is being made, or just has been",
                          "destroy it again when it is closed");
    }
    *others = std::move(parts.others);
    return Status::OK();
  }

  Status DestroyRemains(const Remains& remains) const {
    Status first_error;
    for (const bool in_use : {true, false}) {
      for (const NodePart& part : remains.parts) {
        if (Contains(remains.in_use, part.name) != in_use) continue;
        KeepFirstError(DestroyPart(part, /*used_too=*/in_use, &remains.connection->rpc()),
                       &first_error);
      }
    }
    return first_error;
  }

  static Status ShardsAreLeft(const std::string& node, const Status& why) {
    return Status::FromCode(why.code(),
                            "shards are left on memory node " + node +
                                ", destroy the database again: " + why.message().ToString());
  }

  static bool Contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  static void MakeUnique(std::vector<std::string>* nodes) {
    std::sort(nodes->begin(), nodes->end());
    nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
  }

  Options options_;
  const std::string name_;
  std::unique_ptr<NodeConnection> home_;  // To where the first shard is to be.
  DatabaseIncarnation first_shard_{};     // The one that was found there.
  std::vector<TableNode> table_nodes_;    // As the database says.
  bool tables_are_anywhere_ = false;      // It cannot be asked.
};

}  // namespace

Status DestroyDB(const std::string& name, const Options& requested) try {
  DLSM_RETURN_IF_ERROR(CheckName(name));
  // What else may be wrong with them concerns who opens. A comparator is looked at only where it is
  // needed: that of a database that has been closed may have gone.
  if (!requested.compute_boundaries.empty() && requested.comparator == nullptr) {
    return Status::InvalidArgument("Options::comparator is null",
                                   "give the one that the database was made with");
  }
  DLSM_RETURN_IF_ERROR(CheckComputeBoundaries(requested));
  return Destroyer(WithFiniteTimeouts(requested), NameAtMemoryNodes(requested, name)).Run();
} catch (const std::bad_alloc&) {
  return OutOfWorkMemory();
}

}  // namespace dlsm
