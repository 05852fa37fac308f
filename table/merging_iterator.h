// The union of several sorted sources in one order.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/table_iterator.h"

namespace dlsm {

class QueuePairs;

// A table's, or any other.
struct MergingSource {
  // NOLINTNEXTLINE(google-explicit-constructor): both kinds are what a list of sources is made of.
  MergingSource(std::unique_ptr<InternalIterator> other) : iterator(std::move(other)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  MergingSource(std::unique_ptr<TableIterator> of_table)
      : table(of_table.get()), iterator(std::move(of_table)) {}

  TableIterator* table = nullptr;  // The iterator, if it is one that can prepare to seek.
  std::unique_ptr<InternalIterator> iterator;
};

// Over internal keys, which are unique among all sources. With one source that source is returned,
// with none an empty iterator. `queue_pairs`, which outlive it, are those that tables are read by:
// what these stand at in place is not shown once it may be others' memory. Null: there are none.
std::unique_ptr<InternalIterator> NewMergingIterator(const InternalKeyComparator& comparator,
                                                     std::vector<MergingSource> sources,
                                                     const QueuePairs* queue_pairs = nullptr);
// The same of tables only, as one that can prepare to seek: it prepares all of them.
std::unique_ptr<TableIterator> NewMergingTableIterator(const InternalKeyComparator& comparator,
                                                       std::vector<MergingSource> tables,
                                                       const QueuePairs* queue_pairs);

}  // namespace dlsm
