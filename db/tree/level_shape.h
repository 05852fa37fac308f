// How the levels of a database look under each compaction style, and how those that another style
// has left are brought into that form.
//
//   kLeveled, kLeveledChooseBest, kFullLeveling   level 0 newest first, the others disjoint by key
//   kTiered, kSizeTiered                          all newest first
//   kGuards                                       all newest first, with guards
#pragma once

#include <cstddef>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/tree/level.h"

namespace dlsm {

// Makes `levels`, whose invariants hold, `count` levels of this style, without touching a table.
// InvalidArgument, with the remedy, if that cannot be: then tables must be merged first.
Status ShapeLevels(const InternalKeyComparator& comparator, CompactionStyle style, size_t count,
                   std::vector<Level>* levels);

}  // namespace dlsm
