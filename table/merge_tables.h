// The one merge. A compute node and a memory node call this same function.
//
// Merges runs of tables into new tables, in internal key order:
//   1. Of each user key the versions go that nobody needs any more (version_rule.h).
//   2. The compaction filter is asked about the others (compaction_filter.h).
//   3. The output is cut at cut points, at a cut candidate behind half a table, and where a table
//      would exceed its byte limit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/compaction_filter.h"
#include "dLSM/status.h"
#include "table/range_tombstones.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "table/version_rule.h"

namespace dlsm {

struct MergeOptions {
  TableOptions table;
  std::vector<SequenceNumber> snapshots;  // Live ones, ascending.
  // What tables older than all inputs may hold: sorted by `smallest`, disjoint.
  std::vector<KeyRange> older;
  // Those that overlap the inputs, as RangeTombstones wants them. They were read before
  // `snapshots`.
  std::vector<RangeFragment> tombstones;
  // As the outputs' metas are to say.
  SequenceNumber tombstones_applied = 0;
  // May be null. It is told the level of the outputs.
  std::shared_ptr<const CompactionFilter> filter;
  SequenceNumber filter_above = 0;  // It is asked about newer versions only: no snapshot sees them.
  uint32_t level = 0;
  // Only user keys in [begin, end) are merged; each bound may be absent.
  bool has_begin = false;
  bool has_end = false;
  std::string begin;
  std::string end;
  uint64_t table_bytes_max = uint64_t{64}
                             << 20;     // Of one output's image; a lone record may exceed it.
  std::vector<std::string> cut_points;  // User keys, ascending; each starts a new table.
  // Where a table that is half full ends early, so that tables of several merges end at the same
  // keys: at these user keys (ascending), and where so many trailing bits of the hash of the user
  // key are zero (0: nowhere).
  std::vector<std::string> cut_candidates;
  uint32_t cut_hash_bits = 0;
};

struct MergeStatistics {
  uint64_t records_read = 0;
  uint64_t records_written = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;  // Of images.
  uint64_t micros = 0;
  uint64_t hidden = 0;       // Records that range tombstones have hidden.
  uint64_t filtered = 0;     // Records that the compaction filter has removed or changed.
  uint64_t allocations = 0;  // Made for the outputs, on a memory node.
};

// How many trailing bits of the hash of a key are zero: what `cut_hash_bits` is compared with.
uint32_t CutRank(const Slice& user_key);

// Where outputs go.
class MergeOutput {
 public:
  virtual ~MergeOutput() = default;
  // A sink with a capacity of at least `bytes`.
  virtual Status NewTable(uint64_t bytes, std::unique_ptr<TableSink>* sink) = 0;
  // The table of the last NewTable() is complete; *meta lacks place and number, which the callee
  // sets.
  virtual Status TableDone(TableMeta meta, const Slice& resident) = 0;
};

// Asked between slices of a merge.
class MergePace {
 public:
  virtual ~MergePace() = default;
  // `bytes` of input more are merged. Returns when the merge may go on; an error ends it.
  virtual Status Proceed(uint64_t bytes) = 0;
};

// A run: tables whose internal keys do not overlap, ascending.
using TableRun = std::vector<const TableReader*>;

// `runs` in any order. Every record's checksum is verified. Asks `pace` every few hundred records.
// On an error, outputs already done remain `output`'s to drop. Pace, output and queue pairs are
// used by the calling thread alone.
Status MergeTables(const MergeOptions& options, const std::vector<TableRun>& runs,
                   const TableReadOptions& read_options, QueuePairs* queue_pairs, MergePace* pace,
                   MergeOutput* output, MergeStatistics* statistics);

}  // namespace dlsm
