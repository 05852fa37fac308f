// Walks the tables of a run one after the other. A table's own iterator exists only while the
// position is in that table.
#pragma once

#include <memory>

#include "table/table_iterator.h"
#include "table/table_run.h"

namespace dlsm {

// Over internal keys. What the view points to and `queue_pairs` outlive the iterator. encoded() and
// stable() are those of the current table.
std::unique_ptr<TableIterator> NewRunIterator(const InternalKeyComparator& comparator,
                                              const RunView& run, const TableReadOptions& options,
                                              QueuePairs* queue_pairs);

}  // namespace dlsm
