// Sorted runs: how tables that lie newest first divide into groups that can be read as one.
#pragma once

#include <vector>

#include "db/tree/table.h"
#include "table/internal_key.h"

namespace dlsm {

// Tables that follow each other in order, each starting behind the end of the one before, are one
// run. Newest run first; what one merge wrote side by side is one run, and so is what happens to
// fit.
std::vector<std::vector<TableRef>> RunsOf(const InternalKeyComparator& comparator,
                                          const std::vector<TableRef>& tables);
// Where the run that starts at `first` ends.
const TableRef* EndOfRun(const InternalKeyComparator& comparator, const TableRef* first,
                         const TableRef* end);
size_t CountRuns(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables);
// Whether neighbours in a run may both have versions of one user key. A run can come to that
// without having been merged: a newer table with one key, and an older one that begins with the
// same key.
bool VersionsSpanTables(const InternalKeyComparator& comparator,
                        const std::vector<TableRef>& tables);
// Whether no key can be in two of them, wherever they lie.
bool AreDisjoint(const InternalKeyComparator& comparator, std::vector<TableRef> tables);

uint64_t BytesOf(const std::vector<TableRef>& tables);

}  // namespace dlsm
