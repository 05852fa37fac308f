// Walks the tables of a run one after the other. A table's own iterator exists only while the
// position is in that table.
#pragma once

#include <memory>

#include "table/merge_tables.h"
#include "table/table_iterator.h"

namespace dlsm {

// Over internal keys. The readers and `queue_pairs` outlive the iterator. encoded() and stable()
// are those of the current table.
std::unique_ptr<TableIterator> NewRunIterator(const InternalKeyComparator& comparator, TableRun run,
                                              const TableReadOptions& options,
                                              QueuePairs* queue_pairs);

}  // namespace dlsm
