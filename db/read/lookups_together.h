// The steps that lookups of several keys take together: so the cache misses on their ways overlap.
#pragma once

#include <cstddef>
#include <span>

#include "db/read/table_lookup.h"

namespace dlsm {

// How many keys take each step together before any takes the next one. More would fall out of the
// first-level cache before they are used.
inline constexpr size_t kLookupsTogetherMax = 16;

// Finds the candidate tables of lookups that no memtable has answered, kLookupsTogetherMax of them
// at most.
void FindCandidatesTogether(std::span<TableLookup* const> lookups);
// Then has what Advance() of each will look at on its way to the caches.
void ApproachTogether(std::span<TableLookup* const> lookups, const TableReadOptions& options);

}  // namespace dlsm
