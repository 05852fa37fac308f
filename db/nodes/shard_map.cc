#include "db/nodes/shard_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "util/coding.h"
#include "util/rpc/messages/database_name.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status Malformed(const char* what) { return Status::Corruption("malformed shard map", what); }

Status CheckAscending(const Comparator& comparator, const std::vector<std::string>& boundaries,
                      std::string* which) {
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (comparator.Compare(boundaries[i - 1], boundaries[i]) < 0) continue;
    *which = fmt::format("\"{}\" is not behind \"{}\"", ShownKey(boundaries[i]),
                         ShownKey(boundaries[i - 1]));
    return Status::InvalidArgument(*which);
  }
  return Status::OK();
}

// The i-th of `count` equal parts of all 8-byte keys starts here.
std::string EvenBoundary(size_t i, size_t count) {
  const auto number = static_cast<uint64_t>((static_cast<unsigned __int128>(i) << 64) / count);
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

std::vector<std::string> EvenBoundaries(const Comparator& comparator, size_t count) {
  std::vector<std::string> boundaries;
  for (size_t i = 1; i < count; ++i) boundaries.push_back(EvenBoundary(i, count));
  std::sort(boundaries.begin(), boundaries.end(),
            [&comparator](const std::string& a, const std::string& b) {
              return comparator.Compare(a, b) < 0;
            });
  return boundaries;
}

}  // namespace

std::string ShownKey(const Slice& key) {
  constexpr size_t kBytesMax = 40;
  std::string shown;
  for (const char c : key.ToStringView().substr(0, kBytesMax)) {
    if (std::isprint(static_cast<unsigned char>(c)) != 0 && c != '\\' && c != '"') {
      shown.push_back(c);
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return key.size() > kBytesMax ? shown + "..." : shown;
}

std::string ShardName(const std::string& database, size_t shard) {
  return shard == 0 ? database : PartName(database, DatabasePart::kShard, shard);
}

std::string ShardTablesName(const std::string& database, size_t shard) {
  return PartName(database, DatabasePart::kShardTables, shard);
}

bool IsShardTablesName(const std::string& name) {
  return IsPartName(name, DatabasePart::kShardTables);
}

bool IsPartOf(const std::string& name, const std::string& database) {
  return (IsPartName(name, DatabasePart::kShard) || IsShardTablesName(name)) &&
         name.starts_with(database) && name.rfind(kPartMark) == database.size();
}

Status CheckShardOptions(const Options& options) {
  if (options.shards < 1 || static_cast<size_t>(options.shards) > ShardMap::kShardsMax) {
    return Status::InvalidArgument("Options::shards is out of range",
                                   "use 1 to " + std::to_string(ShardMap::kShardsMax));
  }
  const std::vector<std::string>& boundaries = options.shard_boundaries;
  if (boundaries.empty()) return Status::OK();
  if (boundaries.size() + 1 > ShardMap::kShardsMax) {
    return Status::InvalidArgument(
        "Options::shard_boundaries has too many keys",
        "use one less than shards, of which there may be " + std::to_string(ShardMap::kShardsMax));
  }
  if (options.shards != 1 && static_cast<size_t>(options.shards) != boundaries.size() + 1) {
    return Status::InvalidArgument(
        fmt::format("Options::shard_boundaries has {} keys, which make {} shards, not {}",
                    boundaries.size(), boundaries.size() + 1, options.shards),
        "leave out one of the two options, or give one key less than shards");
  }
  std::string which;
  if (!CheckAscending(*options.comparator, boundaries, &which).ok()) {
    return Status::InvalidArgument("Options::shard_boundaries: " + which,
                                   "give them in ascending order, each once");
  }
  return Status::OK();
}

Status ShardMap::FromOptions(const Options& options, const std::vector<std::string>& nodes,
                             ShardMap* map) {
  ShardMap made;
  made.boundaries = options.shard_boundaries;
  if (made.boundaries.empty()) {
    made.boundaries = EvenBoundaries(*options.comparator, static_cast<size_t>(options.shards));
    std::string which;
    if (!CheckAscending(*options.comparator, made.boundaries, &which).ok()) {
      return Status::InvalidArgument("the comparator takes keys of eight bytes for equal: " + which,
                                     "give Options::shard_boundaries");
    }
  }
  for (size_t i = 0; i <= made.boundaries.size(); ++i) {
    made.nodes.push_back(nodes[(options.compute_node_id + i) % nodes.size()]);
  }
  *map = std::move(made);
  return Status::OK();
}

Status ShardMap::CheckAgainst(const Options& options, const std::vector<std::string>& given) const {
  if (options.shards != 1 && static_cast<size_t>(options.shards) != count()) {
    return Status::InvalidArgument(
        fmt::format("the database has {} shards, Options::shards is {}", count(), options.shards),
        "open it with what it has; a database is divided when it is made");
  }
  if (!options.shard_boundaries.empty() && options.shard_boundaries != boundaries) {
    std::string stored;
    for (const std::string& boundary : boundaries) stored += " \"" + ShownKey(boundary) + "\"";
    return Status::InvalidArgument(
        "the database is not divided at Options::shard_boundaries",
        stored.empty() ? "it has one shard" : "it is divided at" + stored);
  }
  for (size_t i = 1; i < count(); ++i) {
    if (std::find(given.begin(), given.end(), nodes[i]) != given.end()) continue;
    return Status::InvalidArgument(
        fmt::format("shard {} of the database is on memory node {}, which the options do not name",
                    i, nodes[i].empty() ? "embedded" : nodes[i]),
        "name all memory nodes that it was made with");
  }
  return Status::OK();
}

size_t ShardMap::ShardOf(const Comparator& comparator, const Slice& key) const {
  const auto behind = std::upper_bound(
      boundaries.begin(), boundaries.end(), key,
      [&comparator](const Slice& a, const std::string& b) { return comparator.Compare(a, b) < 0; });
  return static_cast<size_t>(behind - boundaries.begin());
}

void ShardMap::EncodeTo(std::string* to) const {
  PutVarint32(to, static_cast<uint32_t>(count()));
  for (const std::string& boundary : boundaries) PutLengthPrefixed(to, boundary);
  for (const std::string& node : nodes) PutLengthPrefixed(to, node);
}

Status ShardMap::DecodeFrom(Slice* from) {
  uint32_t shards;
  if (!GetVarint32(from, &shards) || shards < 1 || shards > kShardsMax) return Malformed("count");
  ShardMap decoded;
  Slice text;
  for (uint32_t i = 1; i < shards; ++i) {
    if (!GetLengthPrefixed(from, &text)) return Malformed("boundary");
    decoded.boundaries.push_back(text.ToString());
  }
  for (uint32_t i = 0; i < shards; ++i) {
    if (!GetLengthPrefixed(from, &text)) return Malformed("memory node");
    decoded.nodes.push_back(text.ToString());
  }
  *this = std::move(decoded);
  return Status::OK();
}

Status ShardMap::CheckOrder(const Comparator& comparator) const {
  std::string which;
  return CheckAscending(comparator, boundaries, &which).ok() ? Status::OK()
                                                             : Malformed(which.c_str());
}

}  // namespace dlsm
