#include "table/merge_messages.h"

#include <algorithm>

#include "table/compaction_filters.h"
#include "table/key_list.h"
#include "util/bloom_filter.h"
#include "util/built_in_comparator.h"
#include "util/coding.h"
#include "util/rpc/channel/rpc.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint32_t kMergeVersion = 7;

// More snapshots, ranges, cut points or tables than merges have; and a bound on what a hostile
// message can make its receiver allocate.
constexpr uint32_t kListItemsMax = uint32_t{1} << 20;

// Of the keys in a message, which may be much shorter than they are.
constexpr uint64_t kKeyBytesMax = uint64_t{256} << 20;

// More than number and peers of a request take.
constexpr size_t kFilledInBytesMax = size_t{1} << 20;

Status MalformedMerge(const char* what) { return Status::Corruption("merge message", what); }

bool GetCount(Slice* from, uint32_t* count) {
  return GetFixed32(from, count) && *count <= kListItemsMax && *count <= from->size();
}

bool GetFlag(Slice* from, bool* flag) {
  uint8_t byte = 0;
  if (!GetFixed8(from, &byte) || byte > 1) return false;
  *flag = byte == 1;
  return true;
}

void PutFlag(std::string* to, bool flag) { to->push_back(flag ? 1 : 0); }

void PutCount(std::string* to, size_t count) { PutFixed32(to, static_cast<uint32_t>(count)); }

// | format: 1 | block bytes: 4 | restart interval: 4 | compression: 1 |
// | comparator's name: length-prefixed | bits per key of the Bloom filter: 4, 0 for none |
void PutTableOptions(std::string* to, const TableOptions& options) {
  const BloomFilterPolicy* const bloom = AsBuiltIn(options.filter_policy);
  to->push_back(static_cast<char>(options.format));
  PutFixed32(to, static_cast<uint32_t>(options.block_bytes));
  PutFixed32(to, static_cast<uint32_t>(options.restart_interval));
  to->push_back(static_cast<char>(options.compression));
  PutLengthPrefixed(to, options.comparator->Name());
  PutFixed32(to, bloom == nullptr ? 0 : static_cast<uint32_t>(bloom->bits_per_key()));
}

const Comparator* BuiltInComparator(const Slice& name) {
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    if (name == Slice(comparator->Name())) return comparator;
  }
  return nullptr;
}

Status GetTableOptions(Slice* from, TableOptions* options,
                       std::shared_ptr<const FilterPolicy>* owner) {
  constexpr uint32_t kBlockBytesMax = uint32_t{1} << 30;
  constexpr uint32_t kBitsPerKeyMax = 64;
  uint8_t format = 0;
  uint8_t compression = 0;
  uint32_t block_bytes = 0;
  uint32_t restart_interval = 0;
  uint32_t bits_per_key = 0;
  Slice name;
  if (!GetFixed8(from, &format) || !GetFixed32(from, &block_bytes) ||
      !GetFixed32(from, &restart_interval) || !GetFixed8(from, &compression) ||
      !GetLengthPrefixed(from, &name) || !GetFixed32(from, &bits_per_key)) {
    return MalformedMerge("table options are too short");
  }
  if (format > static_cast<uint8_t>(TableFormat::kBlockBased) || compression > kSnappyCompression ||
      block_bytes > kBlockBytesMax || restart_interval > kBlockBytesMax ||
      bits_per_key > kBitsPerKeyMax) {
    return MalformedMerge("table options out of range");
  }
  options->comparator = BuiltInComparator(name);
  if (options->comparator == nullptr) return MalformedMerge("unknown comparator");
  options->format = static_cast<TableFormat>(format);
  options->block_bytes = block_bytes;
  options->restart_interval = static_cast<int>(restart_interval);
  options->compression = static_cast<CompressionType>(compression);
  owner->reset();
  if (bits_per_key != 0) {
    *owner = std::make_shared<BloomFilterPolicy>(static_cast<int>(bits_per_key));
  }
  options->filter_policy = owner->get();
  return Status::OK();
}

void PutNumbers(std::string* to, const std::vector<SequenceNumber>& numbers) {
  PutCount(to, numbers.size());
  for (const SequenceNumber number : numbers) PutFixed64(to, number);
}

void PutKeys(std::string* to, const std::vector<std::string>& list, KeyWriter* keys) {
  PutCount(to, list.size());
  for (const std::string& key : list) keys->Put(key, to);
}

// | snapshots: count, 8 each | older: count, two keys each | begin, end: flag and key each |
// | table bytes max: 8 | cut points: count, keys | cut candidates: count, keys | hash bits: 4 |
// | tombstones: count, each two keys, its numbers as snapshots are | tombstones applied: 8 |
// | filter's name, length-prefixed, empty for none | its parameters, length-prefixed |
// | filter above: 8 | level: 4 |
// Keys are those of a list (key_list.h), up to the last table's.
void PutMergeOptions(std::string* to, const MergeOptions& options, KeyWriter* keys) {
  PutNumbers(to, options.snapshots);
  PutCount(to, options.older.size());
  for (const KeyRange& range : options.older) {
    keys->Put(range.smallest, to);
    keys->Put(range.largest, to);
  }
  PutFlag(to, options.has_begin);
  keys->Put(options.begin, to);
  PutFlag(to, options.has_end);
  keys->Put(options.end, to);
  PutFixed64(to, options.table_bytes_max);
  PutKeys(to, options.cut_points, keys);
  PutKeys(to, options.cut_candidates, keys);
  PutFixed32(to, options.cut_hash_bits);
  PutCount(to, options.tombstones.size());
  for (const RangeFragment& fragment : options.tombstones) {
    keys->Put(fragment.begin, to);
    keys->Put(fragment.end, to);
    PutNumbers(to, fragment.sequences);
  }
  PutFixed64(to, options.tombstones_applied);
  PutLengthPrefixed(to, options.filter == nullptr ? Slice() : Slice(options.filter->Name()));
  PutLengthPrefixed(to, options.filter == nullptr ? std::string() : options.filter->Parameters());
  PutFixed64(to, options.filter_above);
  PutFixed32(to, options.level);
}

bool GetNumbers(Slice* from, std::vector<SequenceNumber>* snapshots) {
  uint32_t count = 0;
  if (!GetCount(from, &count) || count > from->size() / sizeof(SequenceNumber)) return false;
  snapshots->resize(count);
  for (SequenceNumber& snapshot : *snapshots) {
    if (!GetFixed64(from, &snapshot)) return false;
  }
  return true;
}

bool GetTombstones(Slice* from, std::vector<RangeFragment>* tombstones, KeyReader* keys) {
  uint32_t count = 0;
  if (!GetCount(from, &count)) return false;
  tombstones->clear();
  for (uint32_t i = 0; i < count; ++i) {
    RangeFragment& fragment = tombstones->emplace_back();
    if (!keys->Get(from, &fragment.begin) || !keys->Get(from, &fragment.end) ||
        !GetNumbers(from, &fragment.sequences)) {
      return false;
    }
  }
  return true;
}

Status GetFilter(Slice* from, std::shared_ptr<const CompactionFilter>* filter) {
  Slice name;
  Slice parameters;
  if (!GetLengthPrefixed(from, &name) || !GetLengthPrefixed(from, &parameters) ||
      parameters.size() > kFilterParametersBytesMax) {
    return MalformedMerge("its compaction filter is malformed");
  }
  filter->reset();
  if (name.empty()) return Status::OK();
  // Whatever keeps this process from making it: the compute node has one.
  const Status made = MakeCompactionFilter(name.ToString(), parameters, filter);
  return made.ok() ? made : Status::NotSupported(made.message());
}

bool GetOlder(Slice* from, std::vector<KeyRange>* older, KeyReader* keys) {
  uint32_t count = 0;
  if (!GetCount(from, &count)) return false;
  older->clear();
  for (uint32_t i = 0; i < count; ++i) {
    KeyRange& range = older->emplace_back();
    if (!keys->Get(from, &range.smallest) || !keys->Get(from, &range.largest)) return false;
  }
  return true;
}

bool GetKeys(Slice* from, std::vector<std::string>* list, KeyReader* keys) {
  uint32_t count = 0;
  if (!GetCount(from, &count)) return false;
  list->clear();
  for (uint32_t i = 0; i < count; ++i) {
    if (!keys->Get(from, &list->emplace_back())) return false;
  }
  return true;
}

Status GetMergeOptions(Slice* from, MergeOptions* options, KeyReader* keys) {
  const bool parsed =
      GetNumbers(from, &options->snapshots) && GetOlder(from, &options->older, keys) &&
      GetFlag(from, &options->has_begin) && keys->Get(from, &options->begin) &&
      GetFlag(from, &options->has_end) && keys->Get(from, &options->end) &&
      GetFixed64(from, &options->table_bytes_max) && GetKeys(from, &options->cut_points, keys) &&
      GetKeys(from, &options->cut_candidates, keys) && GetFixed32(from, &options->cut_hash_bits) &&
      GetTombstones(from, &options->tombstones, keys) &&
      GetFixed64(from, &options->tombstones_applied) &&
      options->tombstones_applied <= kSequenceNumberMax;
  if (!parsed) return MalformedMerge("merge options are malformed");
  DLSM_RETURN_IF_ERROR(
      RangeTombstones::CheckFragments(*options->table.comparator, options->tombstones));
  DLSM_RETURN_IF_ERROR(GetFilter(from, &options->filter));
  const bool ended = GetFixed64(from, &options->filter_above) && GetFixed32(from, &options->level);
  return ended ? Status::OK() : MalformedMerge("what its compaction filter is told");
}

void PutTables(std::string* to, const std::vector<TableMeta>& tables, KeyWriter* keys) {
  PutCount(to, tables.size());
  for (const TableMeta& table : tables) table.EncodeTo(to, keys);
}

Status GetTables(Slice* from, std::vector<TableMeta>* tables, KeyReader* keys) {
  uint32_t count = 0;
  if (!GetCount(from, &count)) return MalformedMerge("a list of tables is too short");
  tables->clear();
  for (uint32_t i = 0; i < count; ++i) {
    DLSM_RETURN_IF_ERROR(tables->emplace_back().DecodeFrom(from, keys));
  }
  return Status::OK();
}

void PutPeers(std::string* to, const std::vector<MergePeer>& peers) {
  PutCount(to, peers.size());
  for (const MergePeer& peer : peers) {
    PutFixed32(to, static_cast<uint32_t>(peer.node));
    PutFixed64(to, static_cast<uint64_t>(peer.boot));
    PutLengthPrefixed(to, peer.host);
    PutFixed32(to, peer.port);
  }
}

bool GetPeers(Slice* from, std::vector<MergePeer>* peers) {
  uint32_t count = 0;
  if (!GetCount(from, &count) || count > kMergePeersMax) return false;
  peers->clear();
  for (uint32_t i = 0; i < count; ++i) {
    MergePeer& peer = peers->emplace_back();
    uint32_t node = 0;
    uint32_t port = 0;
    uint64_t boot = 0;
    if (!GetFixed32(from, &node) || !GetFixed64(from, &boot) ||
        !GetLengthPrefixed(from, &peer.host) || !GetFixed32(from, &port) || port > UINT16_MAX) {
      return false;
    }
    peer.node = NodeId{node};
    peer.boot = BootId{boot};
    peer.port = static_cast<uint16_t>(port);
  }
  return true;
}

Status GetVersion(Slice* from) {
  uint32_t version = 0;
  if (!GetFixed32(from, &version)) return MalformedMerge("too short");
  return version == kMergeVersion
             ? Status::OK()
             : MalformedMerge("unknown version: both sides must be of one release");
}

Status ExpectEnd(const Slice& rest) {
  return rest.empty() ? Status::OK() : MalformedMerge("bytes beyond its end");
}

}  // namespace

bool MergeRequest::CanShip(const TableOptions& options) {
  return IsBuiltIn(options.comparator) &&
         (options.filter_policy == nullptr || options.filter_policy == Options::kNoFilter ||
          AsBuiltIn(options.filter_policy) != nullptr);
}

bool MergeRequest::Fits() const {
  const auto fits = [](const auto& list) { return list.size() <= kListItemsMax; };
  const auto encoded_fits = [this] {
    KeyWriter keys(/*sharing=*/true);
    return EncodeWith(&keys).size() <= kFrameBytesMax - kFilledInBytesMax &&
           keys.key_bytes() <= kKeyBytesMax;
  };
  return fits(options.snapshots) && fits(options.older) && fits(options.cut_points) &&
         fits(options.cut_candidates) && fits(options.tombstones) && fits(runs) &&
         std::ranges::all_of(runs, fits) && encoded_fits();
}

// | version: 4 | session: 8 | number | table options | merge options | input bytes: 8 |
// | runs: count, tables: count, meta each | peers: count, each node: 4, boot: 8, host, port: 4 |
std::string MergeRequest::Encode() const {
  KeyWriter keys(/*sharing=*/true);
  return EncodeWith(&keys);
}

std::string MergeRequest::EncodeWith(KeyWriter* keys) const {
  std::string to;
  PutFixed32(&to, kMergeVersion);
  PutFixed64(&to, static_cast<uint64_t>(session));
  number.EncodeTo(&to);
  PutTableOptions(&to, options.table);
  PutMergeOptions(&to, options, keys);
  PutFixed64(&to, input_bytes);
  PutCount(&to, runs.size());
  for (const auto& run : runs) PutTables(&to, run, keys);
  PutPeers(&to, peers);
  return to;
}

Status MergeRequest::Decode(const Slice& bytes) {
  Slice from = bytes;
  KeyReader keys(/*sharing=*/true, kKeyBytesMax);
  uint64_t session_number = 0;
  uint32_t run_count = 0;
  DLSM_RETURN_IF_ERROR(GetVersion(&from));
  if (!GetFixed64(&from, &session_number)) return MalformedMerge("too short");
  session = SessionId{session_number};
  if (!number.DecodeFrom(&from)) return MalformedMerge("its number is malformed");
  DLSM_RETURN_IF_ERROR(GetTableOptions(&from, &options.table, &filter_policy));
  DLSM_RETURN_IF_ERROR(GetMergeOptions(&from, &options, &keys));
  if (!GetFixed64(&from, &input_bytes) || !GetCount(&from, &run_count)) {
    return MalformedMerge("too short");
  }
  runs.clear();
  for (uint32_t i = 0; i < run_count; ++i) {
    DLSM_RETURN_IF_ERROR(GetTables(&from, &runs.emplace_back(), &keys));
  }
  if (!GetPeers(&from, &peers)) return MalformedMerge("its peers are malformed");
  return ExpectEnd(from);
}

// | version: 4 | eight counters of 8 | load | tables: count, meta each |
std::string MergeReply::Encode() const {
  std::string to;
  PutFixed32(&to, kMergeVersion);
  for (const uint64_t counter : {statistics.records_read, statistics.records_written,
                                 statistics.bytes_read, statistics.bytes_written, statistics.micros,
                                 statistics.hidden, statistics.filtered, statistics.allocations}) {
    PutFixed64(&to, counter);
  }
  load.EncodeTo(&to);
  KeyWriter keys(/*sharing=*/true);
  PutTables(&to, outputs, &keys);
  return to;
}

Status MergeReply::Decode(const Slice& bytes) {
  Slice from = bytes;
  DLSM_RETURN_IF_ERROR(GetVersion(&from));
  for (uint64_t* counter : {&statistics.records_read, &statistics.records_written,
                            &statistics.bytes_read, &statistics.bytes_written, &statistics.micros,
                            &statistics.hidden, &statistics.filtered, &statistics.allocations}) {
    if (!GetFixed64(&from, counter)) return MalformedMerge("too short");
  }
  if (!load.DecodeFrom(&from)) return MalformedMerge("its load is malformed");
  KeyReader keys(/*sharing=*/true, kKeyBytesMax);
  DLSM_RETURN_IF_ERROR(GetTables(&from, &outputs, &keys));
  return ExpectEnd(from);
}

}  // namespace dlsm
