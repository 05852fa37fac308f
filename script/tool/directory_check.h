// dlsm_tool check: whether what the directory of a memory node holds is what was written there.
//
//   1. The rows: their pages, their checksums, and that none contradicts another one.
//   2. The manifest of each database: tables and log lie in bytes that the database has.
//   3. Each table that is here: its index, its filter, and each record or block.
//   4. The log: its frames are whole up to where it was durable or on disk; after a power failure,
//      up to where it was on disk.
//
// Keys are not compared, so databases of any comparator can be checked.
#pragma once

#include <ostream>
#include <string>

#include "dLSM/status.h"

namespace dlsm::tool {

// Prints a line for each database, a line and a remedy for each thing that is wrong, and a last one
// with the numbers. *good: nothing is wrong. An error if the directory cannot be looked at: Busy if
// a process has it open, InvalidArgument if it is no memory node's, Corruption if its rows are
// damaged or its region is cut off. Changes nothing.
Status CheckDirectory(const std::string& path, std::ostream* out, bool* good);

}  // namespace dlsm::tool
