// Walks a level guard by guard. Only the guard in which the position lies has iterators open, so
// what a seek costs depends on the runs of one guard, not on how many guards there are.
#pragma once

#include <memory>

#include "dLSM/iterator.h"
#include "db/level.h"
#include "table/table_reader.h"

namespace dlsm {

// Over internal keys. The level and `queue_pairs` outlive the iterator.
std::unique_ptr<Iterator> NewLevelIterator(const InternalKeyComparator& comparator,
                                           const Level& level, const TableReadOptions& options,
                                           QueuePairs* queue_pairs);

// Over the tables of one guard.
std::unique_ptr<Iterator> NewGuardIterator(const InternalKeyComparator& comparator,
                                           const Guard& guard, const TableReadOptions& options,
                                           QueuePairs* queue_pairs);

}  // namespace dlsm
