// The records of several runs in internal key order, forward only: what a merge reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dLSM/status.h"
#include "table/merge_tables.h"
#include "table/table_iterator.h"

namespace dlsm {

// A tournament of the runs' iterators (Knuth, The Art of Computer Programming, section 5.4.1): the
// leaves of a binary tree are the runs, each node above names the run below it that comes first. A
// step plays the games on the way from one leaf to the root again, and none of them takes a branch
// that depends on keys: in a merge nobody can guess those. Beside each run lie the eight bytes of
// its key that follow what all keys have in common: few games need more.
class MergeInput {
 public:
  // The readers and `queue_pairs` outlive this. Stands at the first record of options.begin.
  MergeInput(const MergeOptions& options, const std::vector<TableRun>& runs,
             const TableReadOptions& read_options, QueuePairs* queue_pairs);

  bool Valid() const { return first_ != nullptr && status_.ok(); }
  // Why this is not Valid(), if not for the end of the runs.
  const Status& status() const { return status_; }
  const TableIterator& record() const { return *first_; }
  void Next();

 private:
  // A run, or one that has ended: then without iterator, and after all others.
  struct Head {
    uint64_t digest = UINT64_MAX;
    TableIterator* run = nullptr;
  };

  static size_t CommonPrefixBytes(const InternalKeyComparator& comparator,
                                  const std::vector<TableRun>& runs);
  void Refresh(Head* head);
  bool IsBefore(const Head& a, const Head& b) const;
  void PlayFrom(size_t node);

  const InternalKeyComparator comparator_;
  const size_t prefix_bytes_;  // Common to all user keys, if the order is bytewise.
  std::vector<std::unique_ptr<TableIterator>> runs_;
  std::vector<Head> heads_;  // As many as the tree has leaves, a power of two.
  // By node, the root is 1 and the children of n are 2n and 2n + 1: which head comes first there.
  std::vector<uint32_t> winners_;
  TableIterator* first_ = nullptr;  // Of the root's head.
  Status status_;
};

}  // namespace dlsm
