// Drops indexes and filters of tables that were not read lately, as long as the memory budget is
// exceeded (second chance, a clock's hand going round the tables by number).
#pragma once

#include <cstdint>

#include "db/tree/table_store.h"
#include "db/tree/tree.h"

namespace dlsm {

// *hand: the table at which the last call for this tree has stopped; 0 at first. Does nothing where
// the store has no budget, and while something is installed in the tree. One call for a tree at a
// time.
void ShedMetadata(const TableStore& store, Tree* tree, uint64_t* hand);

}  // namespace dlsm
