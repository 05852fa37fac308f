// Keys that divide what some tables hold into parts of like size.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "db/tree/table.h"
#include "table/internal_key.h"

namespace dlsm {

// Up to `parts` - 1 user keys, ascending, of which neighbours have about as many bytes of the
// tables between them; they need not be keys of any. From the indexes alone: nothing is fetched.
// For other orders than the bytewise one, the tables' first keys have to do.
std::vector<std::string> SplitKeys(const InternalKeyComparator& comparator,
                                   const std::vector<TableRef>& tables, size_t parts);

}  // namespace dlsm
