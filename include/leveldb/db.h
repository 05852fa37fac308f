// A database: an ordered map from keys to values, which outlives the process in a directory, or on
// memory nodes. Thread-safe. doc/leveldb.md says what differs from LevelDB.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

namespace leveldb {

// Those of the LevelDB whose interface this is.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

class WriteBatch;

// The database as it was at one moment. Made and released by a DB.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// Keys in [start, limit).
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& s, const Slice& l) : start(s), limit(l) {}

  Slice start;
  Slice limit;
};

class LEVELDB_EXPORT DB {
 public:
  // Opens the database in the directory `name`. On success *dbptr is the caller's to delete; else
  // it is null.
  static Status Open(const Options& options, const std::string& name, DB** dbptr);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  virtual ~DB();

  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // It is no error if the key does not exist.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;
  // NotFound if the key does not exist; *value is as before then.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;
  // The result has no position yet. The caller deletes it before the database.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;
  // Returns false if there is no such property. Names begin with "leveldb." or "dlsm.".
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;
  // sizes[i] becomes about the number of bytes that the keys of range[i] take.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;
  // Merges all that has keys in [*begin, *end]. If `begin` is null, that is from the first key on;
  // if `end` is null, up to the last one.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// Deletes the database, and its directory if nothing else is in there. OK if there is none.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);

// Opens a database whose log is damaged, and gives up what lies behind the damage.
LEVELDB_EXPORT Status RepairDB(const std::string& dbname, const Options& options);

}  // namespace leveldb
