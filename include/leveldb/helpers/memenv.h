// An Env whose files, and whose databases, are in memory.
#pragma once

#include "leveldb/export.h"

namespace leveldb {

class Env;

// Files are in memory; all else `base_env` does, which outlives the result. A database that is
// opened with Options::env set to the result is in memory until the result is deleted, by the
// caller.
LEVELDB_EXPORT Env* NewMemEnv(Env* base_env);

}  // namespace leveldb
