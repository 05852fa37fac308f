// The text of DB::GetProperty("dlsm.guards").
#pragma once

#include <string>

#include "db/tree/version.h"

namespace dlsm {

// A line of totals for each level that has tables or guards, then a line for each of its guards
// that has tables: its key, runs, tables, bytes and entries.
std::string DescribeGuards(const Version& version);

}  // namespace dlsm
