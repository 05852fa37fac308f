// The output side of a merge: cuts the records that are kept into tables.
//
// The versions of one user key stay together in one table, so that a key has one table in each run:
// they are gathered until the next key comes, and if they do not fit into the current table, a new
// one is begun before them. Only versions that exceed a table by themselves are split.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "table/merge_tables.h"
#include "table/table_bounds.h"
#include "table/table_iterator.h"
#include "table/table_room.h"

namespace dlsm {

class MergeWriter {
 public:
  // What the arguments point to outlives this. `expected_bytes`: of all outputs together; if there
  // are more, each further table may have half of what has been written by then.
  MergeWriter(const MergeOptions& options, const std::vector<TableRun>& inputs,
              uint64_t expected_bytes, MergeOutput* output, MergeStatistics* statistics);

  // In internal key order. `key`: the record's, which is looked at instead of the record's own.
  // `same`: the user key is that of the call before.
  Status Add(const TableIterator& record, const Slice& key, bool same);
  // Likewise, in place of a record whose user key is not that of the call before. The arguments
  // need not stay.
  Status AddChanged(const Slice& internal_key, const Slice& value);
  // Ends the last table. To be called once, last.
  Status Finish();

 private:
  // A record that waits for its user key to be complete.
  struct Pending {
    Slice encoded;
    Slice internal_key;
    Slice value;
    uint64_t bytes_bound = 0;  // What it adds to a table at most.
    std::string copy;          // Of the key, or of all bytes of a record that do not stay.
  };

  void Enqueue(const TableIterator& record, const Slice& key);
  // The next one of pending_.
  Pending& NewPending(size_t internal_key_bytes, size_t value_bytes);
  static void KeepCopy(const Slice& internal_key, const Slice& value, Pending* pending);
  Status WriteIfTooMuch();
  Status WritePending();
  Status Write(const Pending& record, bool same);
  // Whether one of `keys`, from the one at *next on, is at or before `user_key`; *next goes behind
  // it.
  bool Passes(const std::vector<std::string>& keys, const Slice& user_key, size_t* next) const {
    const size_t before = *next;
    while (*next < keys.size() && comparator_.CompareUserKeys(keys[*next], user_key) <= 0) ++*next;
    return *next != before;
  }
  bool MustCut(const Slice& user_key);
  Status OpenTable(const Pending& first);
  // `next`: the internal key with which the next table begins; null: there is none.
  Status CloseTable(const Slice* next);

  const MergeOptions& options_;
  const InternalKeyComparator comparator_;
  MergeOutput* const output_;
  MergeStatistics* const statistics_;
  // For bounds only: it is never given a record.
  const std::unique_ptr<TableBuilder> empty_table_;
  const uint64_t table_bytes_max_;
  uint64_t image_bytes_left_;  // Of what is expected, or of what may come beyond that.

  size_t cut_point_ = 0;      // The next of options_.cut_points.
  size_t cut_candidate_ = 0;  // The next of options_.cut_candidates.
  std::unique_ptr<TableSink> sink_;
  std::unique_ptr<TableBuilder> builder_;  // Null between tables. Goes before its sink.
  TableRoom room_;                         // Of builder_.
  TableBounds bounds_;

  // The first pending_count_ are versions of one user key, the others spare. By pointers, as slices
  // of a record point into its copy.
  std::vector<std::unique_ptr<Pending>> pending_;
  size_t pending_count_ = 0;
  uint64_t pending_bytes_bound_ = 0;
  bool split_ = false;  // Versions of the current key have been written already.
};

}  // namespace dlsm
