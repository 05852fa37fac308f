// How the keys of a database are divided among its shards, and where each of them is.
//
//   shard 0           shard 1           shard 2
//   [first, b0)       [b0, b1)          [b1, last]       boundaries b0 < b1, in the key order
//
// Kept in the manifest of shard 0:
//
//   varint32 shard count N; N - 1 boundaries, N memory nodes     length-prefixed
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// The name under which memory nodes know a shard: the first has the database's. See
// util/rpc/messages/database_name.h.
std::string ShardName(const std::string& database, size_t shard);
// The name under which memory nodes that are not a shard's home know those of its tables that they
// have.
std::string ShardTablesName(const std::string& database, size_t shard);
bool IsShardTablesName(const std::string& name);
// Whether `name` is that of a shard but the first, or of tables of one, of `database`.
bool IsPartOf(const std::string& name, const std::string& database);

struct ShardMap {
  static constexpr size_t kShardsMax = 256;

  std::vector<std::string> boundaries;
  std::vector<std::string> nodes;  // Of each shard, as in MemoryNodesOf().

  size_t count() const { return nodes.size(); }

  // That of a new database, in the order of options.comparator. `nodes` are those that the options
  // name.
  static Status FromOptions(const Options& options, const std::vector<std::string>& nodes,
                            ShardMap* map);
  // Whether an existing database is what the options say, so far as they say anything.
  Status CheckAgainst(const Options& options, const std::vector<std::string>& nodes) const;

  // The shard that has the key.
  size_t ShardOf(const Comparator& comparator, const Slice& key) const;

  void EncodeTo(std::string* to) const;
  // Bytes come from another machine. The order of boundaries is for CheckOrder() to check.
  Status DecodeFrom(Slice* from);
  Status CheckOrder(const Comparator& comparator) const;

  friend bool operator==(const ShardMap&, const ShardMap&) = default;
};

// Options::shards and shard_boundaries as they are; independent of any database.
Status CheckShardOptions(const Options& options);

// Keys for people: what is not printable is escaped, what is long is cut.
std::string ShownKey(const Slice& key);

}  // namespace dlsm
