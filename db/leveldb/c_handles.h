// What the handles of the C interface hold. Objects are counted: a program may destroy its handles
// of them before the database that uses them.
#pragma once

#include <memory>

#include "leveldb/c.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"
#include "leveldb/write_batch.h"

namespace dlsm::compat {

// Those of options.
struct SharedObjects {
  std::shared_ptr<const leveldb::Comparator> comparator;
  std::shared_ptr<const leveldb::FilterPolicy> filter_policy;
  std::shared_ptr<leveldb::Cache> cache;
};

// Sets *errptr as c.h says, and returns whether `status` is an error. `errptr` may be null.
bool SaveError(char** errptr, const leveldb::Status& status);

// By malloc(), with a zero behind it; null if there is no memory.
char* CopyByMalloc(const leveldb::Slice& bytes);

}  // namespace dlsm::compat

struct leveldb_t {
  dlsm::compat::SharedObjects objects;
  std::unique_ptr<leveldb::DB> db;  // Goes first.
};
struct leveldb_iterator_t {
  std::unique_ptr<leveldb::Iterator> iterator;
};
struct leveldb_writebatch_t {
  leveldb::WriteBatch batch;
};
struct leveldb_snapshot_t {
  const leveldb::Snapshot* snapshot;
};
struct leveldb_readoptions_t {
  leveldb::ReadOptions options;
};
struct leveldb_writeoptions_t {
  leveldb::WriteOptions options;
};
struct leveldb_options_t {
  leveldb::Options options;
  dlsm::compat::SharedObjects objects;
};
struct leveldb_comparator_t {
  std::shared_ptr<const leveldb::Comparator> comparator;
};
struct leveldb_filterpolicy_t {
  std::shared_ptr<const leveldb::FilterPolicy> filter_policy;
};
struct leveldb_cache_t {
  std::shared_ptr<leveldb::Cache> cache;
};
struct leveldb_env_t {
  leveldb::Env* env;
};
struct leveldb_logger_t {
  leveldb::Logger* logger;
};
