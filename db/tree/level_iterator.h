// Walks a level guard by guard. Only the guard in which the position lies has iterators open, so
// what a seek costs depends on the runs of one guard, not on how many guards there are.
#pragma once

#include <vector>

#include "db/tree/level.h"
#include "table/merging_iterator.h"
#include "table/table_reader.h"

namespace dlsm {

// Adds what walks the level's tables, over internal keys: one source, which counts the seeks in
// each guard. The level and `queue_pairs` outlive the source.
void AddLevelSources(const InternalKeyComparator& comparator, const Level& level,
                     const TableReadOptions& options, QueuePairs* queue_pairs,
                     std::vector<MergingSource>* sources);

// The same for one guard: a source for each run. Seeks are not counted.
void AddGuardSources(const InternalKeyComparator& comparator, const Guard& guard,
                     const TableReadOptions& options, QueuePairs* queue_pairs,
                     std::vector<MergingSource>* sources);

}  // namespace dlsm
