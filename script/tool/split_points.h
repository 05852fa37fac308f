// Keys that divide a database into parts of about the same size.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/status.h"

namespace dlsm::tool {

// `parts` - 1 keys of the database, ascending, between which about the same number of bytes lie.
// The order of keys is bytewise. Memtables are flushed before; InvalidArgument if there are too few
// keys to tell the parts apart.
Status FindSplitPoints(DB* db, size_t parts, std::vector<std::string>* points);

// What dlsm_tool writes, a key a line, escaped. InvalidArgument if there is none: a database would
// be made that is not divided, and stay so. IOError if `in` fails.
Status ReadSplitPoints(std::istream* in, std::vector<std::string>* points);

}  // namespace dlsm::tool
