// Destroying databases: the shards and their tables on other memory nodes first, the one with the
// map last, so that it can be repeated.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "db/check_options.h"
#include "db/compute_range.h"
#include "db/manifest.h"
#include "db/memory_node_link.h"
#include "db/memory_node_session.h"
#include "db/shard_map.h"
#include "util/log.h"
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
    if (!there) {
      SweepAll(nodes);
      return Status::OK();
    }
    DLSM_RETURN_IF_ERROR(DestroyOthers(map));
    DLSM_RETURN_IF_ERROR(DestroyTables(nodes));
    return MemoryNodeSession::Destroy(options_, name_, &connection->rpc());
  }

 private:
  Status IsThere(RpcClient* rpc, bool* there) const {
    std::vector<std::string> names;
    DLSM_RETURN_IF_ERROR(List(rpc, &names));
    *there = std::find(names.begin(), names.end(), name_) != names.end();
    return Status::OK();
  }

  Status List(RpcClient* rpc, std::vector<std::string>* names) const {
    std::string bytes;
    DLSM_RETURN_IF_ERROR(rpc->Call(Method::kListDatabases, Slice(), &bytes, OneCall()));
    ListDatabasesReply reply;
    DLSM_RETURN_IF_ERROR(reply.Decode(bytes));
    for (ListDatabasesReply::Entry& entry : reply.databases)
      names->push_back(std::move(entry.name));
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

  // Best effort at memory nodes that the database does not say it has tables on.
  Status DestroyTables(std::vector<std::string> nodes) const {
    Status first_error;
    const auto has_tables = [this](const std::string& node) {
      return std::any_of(table_nodes_.begin(), table_nodes_.end(),
                         [&node](const TableNode& each) { return each.address == node; });
    };
    for (const TableNode& node : table_nodes_) nodes.push_back(node.address);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    if (nodes.size() == 1) return Status::OK();
    for (const std::string& node : nodes) {
      const Status swept = Sweep(node, /*only_tables=*/true);
      if (swept.ok()) continue;
      if (!has_tables(node)) {
        Log().Warn("tables may be left at {}: {}", node, swept.ToString());
      } else if (first_error.ok()) {
        first_error =
            Status::FromCode(swept.code(), "tables are left, destroy the database again: " +
                                               swept.message().ToString());
      }
    }
    return first_error;
  }

  // Destroys what there is at `node` of shards and their tables, or of their tables only.
  Status Sweep(const std::string& node, bool only_tables) const {
    std::unique_ptr<NodeConnection> connection;
    std::vector<std::string> there;
    Status status = ConnectToMemoryNode(options_, node, &connection);
    if (status.ok()) status = List(&connection->rpc(), &there);
    for (const std::string& name : there) {
      if (!IsPartOf(name, name_) || (only_tables && !IsShardTablesName(name))) continue;
      const Status swept = MemoryNodeSession::Destroy(options_, name, &connection->rpc());
      if (status.ok()) status = swept;
    }
    return status;
  }

  // There is no database, but there may be shards of one that was not made to its end. Best effort.
  void SweepAll(std::vector<std::string> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    for (const std::string& node : nodes) {
      const Status status = Sweep(node, /*only_tables=*/false);
      if (!status.ok()) Log().Warn("shards may be left at {}: {}", node, status.ToString());
    }
  }

  Deadline OneCall() const {
    return Deadline::In(std::chrono::milliseconds(options_.operation_timeout_ms));
  }

  Options options_;
  const std::string name_;
  std::vector<TableNode> table_nodes_;  // As the database says.
};

}  // namespace

Status DestroyDB(const std::string& name, const Options& requested) {
  DLSM_RETURN_IF_ERROR(CheckName(name));
  DLSM_RETURN_IF_ERROR(CheckComputeBoundaries(requested));
  return Destroyer(WithFiniteTimeouts(requested), NameAtMemoryNodes(requested, name)).Run();
}

}  // namespace dlsm
