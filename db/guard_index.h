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

#include "db/table.h"
#include "table/internal_key.h"
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

  // A key on its way through one guard's runs.
  class Search {
   public:
    Search(const GuardIndex& index, const InternalKeyComparator& comparator, const LookupKey& key);

    // The only table of the run that can hold the newest visible version of the key; or null. One
    // that is alone in its run is not compared with the key.
    const Entry* In(size_t run) const {
      const uint32_t begin = run == 0 ? 0 : index_.run_ends_[run - 1];
      const uint32_t end = index_.run_ends_[run];
      return end - begin == 1 ? &index_.entries_[begin] : InLongRun(begin, end);
    }

   private:
    const Entry* InLongRun(uint32_t begin, uint32_t end) const;

    const GuardIndex& index_;
    const InternalKeyComparator& comparator_;
    const LookupKey& key_;
    int order_ = 0;        // Of the key beside what all last keys start with.
    uint64_t digest_ = 0;  // Of what follows that.
  };

  uint64_t resident_bytes() const;

 private:
  std::vector<uint32_t> run_ends_;
  std::vector<Entry> entries_;
  // Of the tables' largest user keys, behind what all of them start with. None if no run has
  // several tables, or the order is not bytewise.
  std::vector<uint64_t> digests_;
  std::string prefix_;
};

}  // namespace dlsm
