// The records of several runs in internal key order, forward only: what a merge reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dLSM/status.h"
#include "table/merge_tables.h"
#include "table/table_iterator.h"

namespace dlsm {

// A heap of the runs' iterators. Beside each lie the eight bytes of its key that follow what all
// keys have in common: few comparisons need more.
class MergeInput {
 public:
  // The readers and `queue_pairs` outlive this. Stands at the first record of options.begin.
  MergeInput(const MergeOptions& options, const std::vector<TableRun>& runs,
             const TableReadOptions& read_options, QueuePairs* queue_pairs);

  bool Valid() const { return !heap_.empty() && status_.ok(); }
  // Why this is not Valid(), if not for the end of the runs.
  const Status& status() const { return status_; }
  const TableIterator& record() const { return *heap_.front().run; }
  void Next();

 private:
  struct Entry {
    uint64_t digest = 0;
    TableIterator* run = nullptr;
  };

  static size_t CommonPrefixBytes(const InternalKeyComparator& comparator,
                                  const std::vector<TableRun>& runs);
  bool Refresh(Entry* entry);
  bool IsBefore(const Entry& a, const Entry& b) const;
  void SiftDown(size_t at);

  const InternalKeyComparator comparator_;
  const size_t prefix_bytes_;  // Common to all user keys, if the order is bytewise.
  std::vector<std::unique_ptr<TableIterator>> runs_;
  std::vector<Entry> heap_;
  Status status_;
};

}  // namespace dlsm
