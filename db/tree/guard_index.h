// Which tables of a guard a lookup has to ask. Of each run there is at most one:
//
//   runs       | t9         | t6 t7 t8            | t1 t2      |    newest first
//   last keys    .            [ d6 | d7 | d8 ]      [ d1 | d2 ]     digests, side by side
//   lines        [ a9         | a6 | a7 | a8        | a1 | a2 ]     where the filters' lines are
//
// So a lookup costs a search among eight-byte digests for each run of several tables, and a cache
// line of a filter for each run; these lines are all asked for before the first is looked at
// (candidate_list.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/tree/table.h"
#include "table/internal_key.h"
#include "table/table_run.h"
#include "util/bloom_filter.h"

namespace dlsm {

// Immutable. The tables are its guard's, which outlives it.
class GuardIndex {
 public:
  struct Entry {
    const Table* table;
    BloomLines filter;  // Without lines: no built-in filter.
  };

  // `tables` are disjoint and ascend if `sorted`; else they lie newest first.
  GuardIndex(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables,
             bool sorted);

  size_t runs() const { return run_ends_.size(); }
  // Where each run ends in the guard's list of tables.
  const std::vector<uint32_t>& run_ends() const { return run_ends_; }
  // As an iterator sees it.
  RunView Run(size_t run) const {
    const uint32_t begin = BeginOf(run);
    return RunView{{readers_.data() + begin, run_ends_[run] - begin},
                   digests_.empty() ? nullptr : digests_.data() + begin,
                   prefix_};
  }
  // Whose seeks count for the guard: the oldest table. Null if there is none.
  const Table* oldest() const { return entries_.empty() ? nullptr : entries_.back().table; }

  // A key on its way through one guard's runs.
  class Search {
   public:
    Search(const GuardIndex& index, const InternalKeyComparator& comparator, const LookupKey& key)
        : index_(index),
          comparator_(comparator),
          key_(key),
          target_(index.prefix_, index.digests_.empty() ? Slice() : key.user_key()) {}

    // The only table of the run that can hold the newest visible version of the key; or null. One
    // that is alone in its run is not compared with the key.
    const Entry* In(size_t run) const {
      const uint32_t begin = index_.BeginOf(run);
      const uint32_t end = index_.run_ends_[run];
      return end - begin == 1 ? &index_.entries_[begin] : InLongRun(run);
    }

   private:
    const Entry* InLongRun(size_t run) const;

    const GuardIndex& index_;
    const InternalKeyComparator& comparator_;
    const LookupKey& key_;
    const RunView::Target target_;
  };

  uint64_t resident_bytes() const;

 private:
  uint32_t BeginOf(size_t run) const { return run == 0 ? 0 : run_ends_[run - 1]; }

  std::vector<uint32_t> run_ends_;
  std::vector<Entry> entries_;
  std::vector<const TableReader*> readers_;
  // Of the tables' largest user keys, behind what all of them start with. None if no run has
  // several tables, or the order is not bytewise.
  std::vector<uint64_t> digests_;
  std::string prefix_;
};

}  // namespace dlsm
