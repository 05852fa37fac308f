#include "db/tree/manifest.h"

#include <utility>

#include "table/short_keys.h"
#include "util/bloom_filter.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A database is written in the first format that can say what it is.
constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kFormatVersionDivided = 2;
constexpr uint32_t kFormatVersionPlaced = 3;
// Added to these.
constexpr uint32_t kFormatRange = 4;
constexpr uint32_t kFormatSharingKeys = 8;
// 16 was a log that did not say what persisted of the memory that it was written into.
constexpr uint32_t kFormatLog = 32;
constexpr uint32_t kFormatTombstones = 64;
constexpr uint32_t kLevelsMax = 64;

Status Malformed(const char* what) { return Status::Corruption("malformed manifest", what); }

template <typename Visit>
void ForEachKey(const std::vector<Level>& levels, Visit visit) {
  for (const Level& level : levels) {
    for (const Guard* guard : level.AllGuards()) {
      visit(guard->key);
      for (const TableRef& table : guard->tables) {
        visit(table->meta().smallest);
        visit(table->meta().largest);
      }
    }
  }
}

bool HasLongKeys(const std::vector<Level>& levels) {
  bool has_long = false;
  ForEachKey(levels, [&has_long](const std::string& key) {
    has_long |= key.size() > kShortKeyBytes + kTrailerBytes;
  });
  return has_long;
}

void AppendTombstones(const std::vector<RangeFragment>& fragments, std::string* to) {
  PutVarint32(to, static_cast<uint32_t>(fragments.size()));
  for (const RangeFragment& fragment : fragments) {
    PutLengthPrefixed(to, fragment.begin);
    PutLengthPrefixed(to, fragment.end);
    PutVarint32(to, static_cast<uint32_t>(fragment.sequences.size()));
    for (const SequenceNumber number : fragment.sequences) PutVarint64(to, number);
  }
}

Status TakeBoundaries(Slice* from, std::vector<std::string>* boundaries) {
  uint32_t count;
  // Each takes at least a byte, which bounds the loop by the input.
  if (!GetVarint32(from, &count) || count == 0 || count > from->size()) {
    return Malformed("boundaries of compute nodes");
  }
  boundaries->clear();
  for (uint32_t i = 0; i < count; ++i) {
    Slice boundary;
    if (!GetLengthPrefixed(from, &boundary)) return Malformed("a boundary of compute nodes");
    boundaries->push_back(boundary.ToString());
  }
  return Status::OK();
}

std::string FilterNamed(const std::string& name) {
  return name.empty() ? "no filter policy" : "filter policy " + name;
}

// What to open a database with that records this filter policy.
std::string RemedyFor(const std::string& filter) {
  if (filter.empty()) return "set Options::filter_policy to Options::kNoFilter";
  if (filter == BloomFilterPolicy::kName) {
    return "set Options::filter_policy to one from NewBloomFilterPolicy(), which is the default "
           "with a built-in comparator only";
  }
  return "set Options::filter_policy to that one";
}

}  // namespace

Status ReadMap(const Slice& bytes, const std::string& home, ShardMap* map,
               std::vector<TableNode>* table_nodes) {
  Manifest manifest;
  DLSM_RETURN_IF_ERROR(ManifestCodec::DecodeHeader(bytes, &manifest));
  if (manifest.shard != 0) return Malformed("it is another shard's");
  *map = std::move(manifest.shards);
  if (map->nodes.empty()) map->nodes.push_back(home);
  map->nodes[0] = home;
  *table_nodes = std::move(manifest.table_nodes);
  return Status::OK();
}

Status Manifest::CheckNames(const std::string& comparator, const std::string& filter) const {
  if (comparator_name != comparator) {
    return Status::InvalidArgument("the database is ordered by comparator " + comparator_name,
                                   "the options name " + comparator + ": open it with its own");
  }
  if (filter_policy_name == filter) return Status::OK();
  return Status::InvalidArgument("the database was made with " + FilterNamed(filter_policy_name) +
                                     ", the options mean " + FilterNamed(filter),
                                 RemedyFor(filter_policy_name));
}

bool ManifestCodec::Fits(const std::vector<Level>& levels) {
  uint64_t bytes = 0;
  ForEachKey(levels, [&bytes](const std::string& key) { bytes += key.size(); });
  return bytes <= kKeyBytesMax;
}

std::string ManifestCodec::Encode(const Manifest& manifest, const std::vector<Level>& levels) {
  std::string body;
  const bool placed = !manifest.table_nodes.empty();
  const bool is_range = !manifest.compute_boundaries.empty();
  const uint32_t undivided_format = manifest.divided() ? kFormatVersionDivided : kFormatVersion;
  const bool sharing = HasLongKeys(levels);
  const bool logged = manifest.flushed_below > 0 || manifest.log.has_value();
  PutFixed32(&body, (placed ? kFormatVersionPlaced : undivided_format) +
                        (is_range ? kFormatRange : 0) + (sharing ? kFormatSharingKeys : 0) +
                        (logged ? kFormatLog : 0) +
                        (manifest.tombstones.empty() ? 0 : kFormatTombstones));
  PutLengthPrefixed(&body, manifest.comparator_name);
  PutLengthPrefixed(&body, manifest.filter_policy_name);
  PutVarint64(&body, manifest.last_sequence);
  PutVarint64(&body, manifest.next_table_number);
  if (manifest.divided() || placed) PutVarint32(&body, manifest.shard);
  if (placed) body.push_back(manifest.divided() ? 1 : 0);
  if (manifest.divided() && manifest.shard == 0) manifest.shards.EncodeTo(&body);
  if (placed) PutVarint32(&body, static_cast<uint32_t>(manifest.table_nodes.size()));
  for (const TableNode& node : manifest.table_nodes) {
    PutVarint32(&body, static_cast<uint32_t>(node.id));
    PutLengthPrefixed(&body, node.address);
  }
  if (is_range) {
    PutVarint32(&body, static_cast<uint32_t>(manifest.compute_boundaries.size()));
    for (const std::string& boundary : manifest.compute_boundaries) {
      PutLengthPrefixed(&body, boundary);
    }
  }
  if (logged) {
    PutVarint64(&body, manifest.flushed_below);
    body.push_back(manifest.log.has_value() ? 1 : 0);
    if (manifest.log.has_value()) manifest.log->AppendTo(&body);
  }
  if (!manifest.tombstones.empty()) AppendTombstones(manifest.tombstones, &body);
  KeyWriter keys(sharing);
  PutVarint32(&body, static_cast<uint32_t>(levels.size()));
  for (const Level& level : levels) {
    EncodeGuard(level.sentinel(), &keys, &body);
    PutVarint32(&body, static_cast<uint32_t>(level.guards().size()));
    for (const Guard& guard : level.guards()) EncodeGuard(guard, &keys, &body);
  }
  std::string bytes;
  PutFixed32(&bytes, Crc32c(body.data(), body.size()));
  return bytes + body;
}

void ManifestCodec::EncodeGuard(const Guard& guard, KeyWriter* keys, std::string* to) {
  keys->Put(guard.key, to);
  to->push_back(static_cast<char>(guard.order));
  PutVarint32(to, static_cast<uint32_t>(guard.tables.size()));
  for (const TableRef& table : guard.tables) table->meta().EncodeTo(to, keys);
}

Status ManifestCodec::Decode(const Slice& bytes, const TableOpener& open, Manifest* manifest,
                             std::vector<Level>* levels) {
  Slice from = bytes;
  bool sharing;
  DLSM_RETURN_IF_ERROR(TakeHeader(&from, manifest, &sharing));
  KeyReader keys(sharing, kKeyBytesMax);
  DLSM_RETURN_IF_ERROR(DecodeLevels(&from, &keys, open, levels));
  return from.empty() ? Status::OK() : Malformed("trailing bytes");
}

Status ManifestCodec::DecodeHeader(const Slice& bytes, Manifest* manifest) {
  Slice from = bytes;
  bool sharing;
  return TakeHeader(&from, manifest, &sharing);
}

Status ManifestCodec::TakeHeader(Slice* bytes, Manifest* manifest, bool* sharing) {
  Slice from = *bytes;
  uint32_t checksum;
  if (!GetFixed32(&from, &checksum)) return Malformed("too short");
  if (checksum != Crc32c(from.data(), from.size())) return Malformed("checksum mismatch");
  uint32_t format;
  if (!GetFixed32(&from, &format)) return Malformed("no format version");
  const bool has_tombstones = format > kFormatTombstones;
  if (has_tombstones) format -= kFormatTombstones;
  const bool logged = format > kFormatLog;
  if (logged) format -= kFormatLog;
  *sharing = format > kFormatSharingKeys;
  if (*sharing) format -= kFormatSharingKeys;
  const bool is_range = format > kFormatRange;
  if (is_range) format -= kFormatRange;
  if (format < kFormatVersion || format > kFormatVersionPlaced) {
    return Status::NotSupported("the database was written by another version of dLSM",
                                "manifest format " + std::to_string(format) +
                                    ", this knows up to " + std::to_string(kFormatVersionPlaced));
  }
  Slice comparator_name;
  Slice filter_policy_name;
  if (!GetLengthPrefixed(&from, &comparator_name) ||
      !GetLengthPrefixed(&from, &filter_policy_name) ||
      !GetVarint64(&from, &manifest->last_sequence) ||
      !GetVarint64(&from, &manifest->next_table_number)) {
    return Malformed("header");
  }
  if (manifest->last_sequence > Manifest::kLastSequenceMax) {
    return Malformed("a last sequence number that no database reaches");
  }
  manifest->comparator_name = comparator_name.ToString();
  manifest->filter_policy_name = filter_policy_name.ToString();
  if (format != kFormatVersion) DLSM_RETURN_IF_ERROR(TakeShard(format, &from, manifest));
  if (format == kFormatVersionPlaced) {
    DLSM_RETURN_IF_ERROR(TakeTableNodes(&from, &manifest->table_nodes));
  }
  if (is_range) DLSM_RETURN_IF_ERROR(TakeBoundaries(&from, &manifest->compute_boundaries));
  manifest->flushed_below = 0;
  manifest->log.reset();
  if (logged) DLSM_RETURN_IF_ERROR(TakeLog(&from, manifest));
  manifest->tombstones.clear();
  if (has_tombstones) DLSM_RETURN_IF_ERROR(TakeTombstones(&from, &manifest->tombstones));
  *bytes = from;
  return Status::OK();
}

// That they ascend is checked where the comparator is known.
Status ManifestCodec::TakeTombstones(Slice* from, std::vector<RangeFragment>* fragments) {
  uint32_t count;
  // Each takes at least four bytes, each number at least one, which bounds the loops by the input.
  if (!GetVarint32(from, &count) || count == 0 || count > from->size()) {
    return Malformed("range tombstones");
  }
  for (uint32_t i = 0; i < count; ++i) {
    Slice begin;
    Slice end;
    uint32_t numbers;
    if (!GetLengthPrefixed(from, &begin) || !GetLengthPrefixed(from, &end) ||
        !GetVarint32(from, &numbers) || numbers == 0 || numbers > from->size()) {
      return Malformed("a range tombstone");
    }
    RangeFragment& fragment = fragments->emplace_back();
    fragment.begin = begin.ToString();
    fragment.end = end.ToString();
    fragment.sequences.resize(numbers);
    for (SequenceNumber& number : fragment.sequences) {
      if (!GetVarint64(from, &number) || number > Manifest::kLastSequenceMax) {
        return Malformed("the number of a range tombstone");
      }
    }
  }
  return Status::OK();
}

Status ManifestCodec::TakeLog(Slice* from, Manifest* manifest) {
  if (!GetVarint64(from, &manifest->flushed_below) || from->empty() ||
      manifest->flushed_below > Manifest::kLastSequenceMax + 1) {
    return Malformed("what is in tables");
  }
  const char has_log = (*from)[0];
  from->remove_prefix(1);
  if (has_log != 0 && has_log != 1) return Malformed("whether there is a log");
  if (has_log == 0) return Status::OK();
  return LogRecord::Take(from, &manifest->log.emplace());
}

Status ManifestCodec::TakeShard(uint32_t format, Slice* from, Manifest* manifest) {
  if (!GetVarint32(from, &manifest->shard) || manifest->shard >= ShardMap::kShardsMax) {
    return Malformed("shard");
  }
  uint8_t divided = 1;
  if (format == kFormatVersionPlaced && (!GetFixed8(from, &divided) || divided > 1)) {
    return Malformed("shard");
  }
  if (divided == 1 && manifest->shard == 0) {
    DLSM_RETURN_IF_ERROR(manifest->shards.DecodeFrom(from));
  }
  return manifest->divided() == (divided == 1) ? Status::OK()
                                               : Malformed("a shard map of one shard");
}

Status ManifestCodec::TakeTableNodes(Slice* from, std::vector<TableNode>* nodes) {
  uint32_t count;
  if (!GetVarint32(from, &count) || count < 1 || count > Manifest::kNodesMax) {
    return Malformed("node count");
  }
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t id;
    Slice address;
    if (!GetVarint32(from, &id) || !GetLengthPrefixed(from, &address)) return Malformed("node");
    nodes->push_back({NodeId{id}, address.ToString()});
  }
  return Status::OK();
}

Status ManifestCodec::DecodeLevels(Slice* from, KeyReader* keys, const TableOpener& open,
                                   std::vector<Level>* levels) {
  uint32_t level_count;
  if (!GetVarint32(from, &level_count) || level_count > kLevelsMax) {
    return Malformed("level count");
  }
  levels->clear();
  for (uint32_t i = 0; i < level_count; ++i) {
    Level& level = levels->emplace_back();
    DLSM_RETURN_IF_ERROR(DecodeGuard(from, keys, open, &level.sentinel_));
    uint32_t guard_count;
    // A guard takes at least three bytes, which bounds the loop by the input.
    if (!GetVarint32(from, &guard_count) || guard_count > from->size()) {
      return Malformed("guard count");
    }
    for (uint32_t g = 0; g < guard_count; ++g) {
      DLSM_RETURN_IF_ERROR(DecodeGuard(from, keys, open, &level.guards_.emplace_back()));
    }
  }
  return Status::OK();
}

Status ManifestCodec::DecodeGuard(Slice* from, KeyReader* keys, const TableOpener& open,
                                  Guard* guard) {
  uint8_t order;
  uint32_t table_count;
  if (!keys->Get(from, &guard->key) || !GetFixed8(from, &order) || order > 1 ||
      !GetVarint32(from, &table_count)) {
    return Malformed("guard");
  }
  guard->order = static_cast<Guard::Order>(order);
  for (uint32_t i = 0; i < table_count; ++i) {
    TableMeta meta;
    DLSM_RETURN_IF_ERROR(meta.DecodeFrom(from, keys));
    TableRef table;
    DLSM_RETURN_IF_ERROR(open(meta, &table));
    guard->tables.push_back(std::move(table));
  }
  return Status::OK();
}

}  // namespace dlsm
