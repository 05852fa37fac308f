// Files for people to read.
#pragma once

#include <string>

#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

// Writes the entries of the table in the file `fname`, which a TableBuilder has made, to *dst: a
// line for each. InvalidArgument if the file is no such table.
LEVELDB_EXPORT Status DumpFile(Env* env, const std::string& fname, WritableFile* dst);

}  // namespace leveldb
