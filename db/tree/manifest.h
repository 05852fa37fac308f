// The manifest: what a database is, kept at its memory nodes so that any process can open it again.
// It is replaced as a whole whenever the version changes, before memory that the old one refers to
// is given back: so what it refers to is always there.
//
//   fixed32 CRC32C of all that follows
//   fixed32 format version
//   comparator name, filter policy name            length-prefixed
//   varint64 last sequence number, varint64 next table number
//   if the database has several shards (format 2): varint32 shard; the shard map for shard 0
//   if tables may be on several memory nodes (format 3): varint32 shard; 1 byte, whether there are
//     several shards; if so the shard map for shard 0; varint32 node count; for each:
//     varint32 id, address (length-prefixed)
//   if it is a range of a compute node's (4 more in the format version): varint32 count; boundaries
//     of compute nodes, length-prefixed
//   if there is a log, or was one that may have to be replayed (32 more in the format version):
//     varint64 first sequence number that is not in tables; 1 byte, whether a log follows; the log
//     (db/log/log_layout.h).
//   With range tombstones (64 more in the format version): varint32 count; for each fragment:
//     begin, end, length-prefixed; varint32 count, varint64 numbers
//   varint32 level count; for each level:
//     sentinel guard, varint32 guard count, guards
//   guard: key, order (1 byte), varint32 table count, TableMeta *
//     The keys of guards and tables are length-prefixed. If one of them is longer than the bounds
//     of tables usually are (8 more in the format version), they are a list of key_list.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "db/log/log_layout.h"
#include "db/nodes/shard_map.h"
#include "db/tree/level.h"
#include "table/key_list.h"
#include "table/range_tombstones.h"
#include "table/table_meta.h"

namespace dlsm {

// A memory node that tables may be on.
struct TableNode {
  NodeId id{};
  std::string address;  // As in MemoryNodesOf().

  friend bool operator==(const TableNode&, const TableNode&) = default;
};

struct Manifest {
  static constexpr uint32_t kNodesMax = 1024;
  // Half of what there are (sequencer.h): a million writes a second do not get there in a thousand
  // years, and ingests end at half of it (ingest_turns.h). So what is beyond is damage, and a
  // handle that opens the database has as many left. Numbers that ran out would run into the
  // memtable's epoch.
  static constexpr SequenceNumber kLastSequenceMax = (uint64_t{1} << 55) - 1;

  std::string comparator_name;
  std::string filter_policy_name;  // Empty: no filter.
  SequenceNumber last_sequence = 0;
  uint64_t next_table_number = 1;
  // Which part of a database this is, if it has several; each part has a manifest of its own.
  uint32_t shard = 0;
  ShardMap shards;  // Of shard 0. Empty: there is only one.
  // Of shard 0: Options::compute_boundaries.
  std::vector<std::string> compute_boundaries;
  // All memory nodes that tables of this shard may be on, its home included. Empty: only its home.
  std::vector<TableNode> table_nodes;
  // All of this shard's entries with lower numbers are in its tables, or deleted: of a log, only
  // the others count. 0: there was no log.
  SequenceNumber flushed_below = 0;
  // Of shard 0: where the handle's log is. If there is none, everything is in tables.
  std::optional<LogRecord> log;
  // Those that tables need, as RangeTombstones wants them.
  std::vector<RangeFragment> tombstones;
  bool divided() const { return shard > 0 || shards.count() > 1; }
  // InvalidArgument unless the options' comparator and filter policy, "" for none, are those of the
  // database.
  Status CheckNames(const std::string& comparator, const std::string& filter) const;
};

// Makes a table of its meta; sets *table on success.
using TableOpener = std::function<Status(const TableMeta& meta, TableRef* table)>;

class ManifestCodec {
 public:
  // The manifest can be decoded only if keys of guards and tables have no more bytes together.
  static constexpr uint64_t kKeyBytesMax = uint64_t{1} << 30;
  static bool Fits(const std::vector<Level>& levels);

  static std::string Encode(const Manifest& manifest, const std::vector<Level>& levels);
  // Everything but the tables' existence is checked; bytes come from another machine.
  static Status Decode(const Slice& bytes, const TableOpener& open, Manifest* manifest,
                       std::vector<Level>* levels);
  // All but the levels.
  static Status DecodeHeader(const Slice& bytes, Manifest* manifest);

 private:
  static Status TakeHeader(Slice* from, Manifest* manifest, bool* sharing);
  static Status TakeTombstones(Slice* from, std::vector<RangeFragment>* fragments);
  static Status TakeLog(Slice* from, Manifest* manifest);
  static Status TakeShard(uint32_t format, Slice* from, Manifest* manifest);
  static Status TakeTableNodes(Slice* from, std::vector<TableNode>* nodes);
  static void EncodeGuard(const Guard& guard, KeyWriter* keys, std::string* to);
  static Status DecodeGuard(Slice* from, KeyReader* keys, const TableOpener& open, Guard* guard);
  static Status DecodeLevels(Slice* from, KeyReader* keys, const TableOpener& open,
                             std::vector<Level>* levels);
};

// The shards of the database whose first one, at memory node `home`, has this manifest; and the
// memory nodes that tables of the first one may be on.
Status ReadMap(const Slice& manifest, const std::string& home, ShardMap* map,
               std::vector<TableNode>* table_nodes);

}  // namespace dlsm
