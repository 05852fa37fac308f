// Guards beside the key ranges of merges: which of them a merge touches, and what lies behind it.
// For policies that divide levels by guards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/merge/merge_policy.h"

namespace dlsm {

// Whether a table of the guard has keys of [*begin, *end] in its range; null: no bound.
bool HoldsSome(const InternalKeyComparator& comparator, const Guard& guard, const Slice* begin,
               const Slice* end);

// Whether the range of one of `tables` overlaps that of a table of the guard.
bool Overlap(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables,
             const Guard& guard);

// Keys of guards behind the first key of the hull, up to its last.
std::vector<std::string> GuardKeys(const InternalKeyComparator& comparator, const Level& level,
                                   const KeyRange& hull);

// Whether a guard's range overlaps the hull.
bool IsWithin(const InternalKeyComparator& comparator, const Level& level, const Guard& guard,
              const KeyRange& hull);

// Everything from the level `first` on that may hold older versions of what is merged. Of
// `first` itself the inputs do not count, nor, in place, what lies in front of them: the merge
// takes the newest.
void SetOlder(const Version& version, const KeyRange& hull, size_t first, MergePick* pick);

// Where there are no target inputs: disjoint tables that lie within guards of the target level, and
// are not crumbs of less than `bytes_min` on average, only move.
void TryTrivialMove(const InternalKeyComparator& comparator, uint64_t bytes_min, MergePick* pick);

}  // namespace dlsm
