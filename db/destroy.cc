// Destroying databases: the shards and their tables on other memory nodes first, the one with the
// map last, so that it can be repeated.

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "db/check_options.h"
#include "db/compute_range.h"
#include "db/manifest.h"
#include "db/memory_node_link.h"
#include "db/memory_node_session.h"
#include "db/node_parts.h"
#include "db/shard_map.h"
#include "util/log.h"
#include "util/out_of_memory.h"
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
    std::unique_ptr<NodeConnection> connection;
    DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options_, home, &connection));
    bool there = false;
    DLSM_RETURN_IF_ERROR(IsThere(&connection->rpc(), &there));
    ShardMap map;
    if (there) {
      const Status found = FindMap(home, &connection->rpc(), &map);
      // One that was never made to its end goes with the session that was making it.
      if (found.IsInvalidArgument()) DLSM_RETURN_IF_ERROR(IsThere(&connection->rpc(), &there));
      if (there) DLSM_RETURN_IF_ERROR(found);
    }
    if (!there) return SweepAll(home, nodes);
    DLSM_RETURN_IF_ERROR(DestroyOthers(map));
    DLSM_RETURN_IF_ERROR(DestroyTables(nodes));
    return MemoryNodeSession::Destroy(options_, name_, &connection->rpc());
  }

 private:
  Status IsThere(RpcClient* rpc, bool* there) const {
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, name_, rpc, &parts));
    *there = parts.first_shard;
    return Status::OK();
  }

  // A database that nobody can open is destroyed as if it had one shard.
  Status FindMap(const std::string& home, RpcClient* rpc, ShardMap* map) {
    std::unique_ptr<MemoryNodeSession> session;
    Options at_once = options_;
    at_once.open_timeout_ms = 0;
    DLSM_RETURN_IF_ERROR(MemoryNodeSession::Open(at_once, name_, rpc, &session));
    const Status read = ReadMap(session->manifest(), home, map, &table_nodes_);
    if (!read.ok()) {
      Log().Warn("database \"{}\" is destroyed without its shards: {}", name_, read.ToString());
      map->nodes = {home};
      tables_are_anywhere_ = true;
    }
    return session->Close();
  }

  Status DestroyOthers(const ShardMap& map) const {
    Status first_error;
    for (size_t i = 1; i < map.count(); ++i) {
      std::unique_ptr<NodeConnection> connection;
      Status status = ConnectToMemoryNode(options_, map.nodes[i], &connection);
      if (status.ok()) {
        status = MemoryNodeSession::Destroy(options_, ShardName(name_, i), &connection->rpc());
      }
      if (!first_error.ok() || status.ok()) continue;
      first_error = Status::FromCode(status.code(), "shard " + std::to_string(i) +
                                                        " is left, destroy the database again: " +
                                                        status.message().ToString());
    }
    return first_error;
  }

  // Best effort at memory nodes that the database does not say it has tables on: what names any
  // there is another one's, whose first shard is elsewhere.
  Status DestroyTables(std::vector<std::string> nodes) const {
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
      const Status swept = SweepTables(node, /*all=*/recorded || tables_are_anywhere_);
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
  Status SweepTables(const std::string& node, bool all) const {
    std::unique_ptr<NodeConnection> connection;
    DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options_, node, &connection));
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, name_, &connection->rpc(), &parts));
    std::vector<std::string>& names = parts.others;
    std::erase_if(names, [](const std::string& name) { return !IsShardTablesName(name); });
    if (names.empty()) return Status::OK();
    std::vector<std::string> used;
    if (!all) {
      DLSM_RETURN_IF_ERROR(FindPartsInUse(options_, names, node, &used, /*waits=*/true));
    }
    std::erase_if(names, [&used](const std::string& name) {
      return std::find(used.begin(), used.end(), name) != used.end();
    });
    return DestroyParts(names, /*used_too=*/all, &connection->rpc());
  }

  // Unless `used_too`, those that have come into use since they were looked at are left, an error.
  Status DestroyParts(const std::vector<std::string>& names, bool used_too, RpcClient* rpc) const {
    Status first_error;
    for (const std::string& name : names) {
      KeepFirstError(used_too ? MemoryNodeSession::Destroy(options_, name, rpc)
                              : DestroyLeftover(options_, name, rpc),
                     &first_error);
    }
    return first_error;
  }

  // What is left at a memory node of a database whose first shard is on none.
  struct Remains {
    std::unique_ptr<NodeConnection> connection;
    std::vector<std::string> parts;
    std::vector<std::string> in_use;  // Of them.
  };

  // There is no database, but there may be parts of one: it was not made to its end, or its first
  // shard was lost with its memory node. Unless that is elsewhere, or somebody is making it:
  //
  //   1. All memory nodes have to say that they do not have the first shard.
  //   2. Each part is looked at: is it in use?
  //   3. All say once more that they do not have it. So the parts that are in use have lost it, and
  //      as long as they are there nobody makes the database over them (CheckNoOther).
  //   4. These are destroyed, and the others unless they have come into use since.
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
      std::vector<std::string> still_there;
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
                     std::vector<std::string>* names) const {
    NodeParts parts;
    DLSM_RETURN_IF_ERROR(ListParts(options_, name_, rpc, &parts));
    if (parts.first_shard && node != home) return FirstShardIsAt(name_, node);
    if (parts.first_shard) {
      return Status::Busy("database " + name_ + " is being made, or just has been",
                          "destroy it again when it is closed");
    }
    *names = std::move(parts.others);
    return Status::OK();
  }

  Status DestroyRemains(const Remains& remains) const {
    std::vector<std::string> unused = remains.parts;
    std::erase_if(unused, [&remains](const std::string& name) {
      return std::find(remains.in_use.begin(), remains.in_use.end(), name) != remains.in_use.end();
    });
    RpcClient* const rpc = &remains.connection->rpc();
    Status first_error = DestroyParts(remains.in_use, /*used_too=*/true, rpc);
    KeepFirstError(DestroyParts(unused, /*used_too=*/false, rpc), &first_error);
    return first_error;
  }

  static Status ShardsAreLeft(const std::string& node, const Status& why) {
    return Status::FromCode(why.code(),
                            "shards are left on memory node " + node +
                                ", destroy the database again: " + why.message().ToString());
  }

  static void MakeUnique(std::vector<std::string>* nodes) {
    std::sort(nodes->begin(), nodes->end());
    nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
  }

  Options options_;
  const std::string name_;
  std::vector<TableNode> table_nodes_;  // As the database says.
  bool tables_are_anywhere_ = false;    // It cannot be asked.
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
