// Options of databases and of calls. doc/leveldb.md says which of them mean something else here
// than in LevelDB.
#pragma once

#include <cstddef>

#include "leveldb/export.h"

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FilterPolicy;
class Logger;
class Snapshot;

// Programs may have values of later versions, which mean kSnappyCompression.
enum CompressionType : unsigned int { kNoCompression = 0x0, kSnappyCompression = 0x1 };

// The objects that the pointers name stay the caller's, and outlive the database.
struct LEVELDB_EXPORT Options {
  Options();

  // The order of keys; by bytes if it is not set.
  const Comparator* comparator;
  bool create_if_missing = false;
  bool error_if_exists = false;
  // Verify every checksum.
  bool paranoid_checks = false;
  // Used for the directory and for the file LOG. Env::Default() if it is not set.
  Env* env;
  // Gets a few lines of the database's life. If it is null, a file LOG in the directory does.
  Logger* info_log = nullptr;
  // Bytes of one memtable.
  size_t write_buffer_size = 4 * 1024 * 1024;
  // Without effect: a database has the same few files open, however large it is.
  int max_open_files = 1000;
  // Of blocks that are not compressed. If it is null, the database makes one of 8 MB.
  Cache* block_cache = nullptr;
  // Bytes of a block before it is compressed.
  size_t block_size = 4 * 1024;
  int block_restart_interval = 16;
  // Bytes of a table that a merge makes.
  size_t max_file_size = 2 * 1024 * 1024;
  // kSnappyCompression: tables have compressed blocks. kNoCompression: they have no blocks, and a
  // get reads one record.
  CompressionType compression = kSnappyCompression;
  // Without effect: an open goes on with the log that there is.
  bool reuse_logs = false;
  // May differ from one open to the next.
  const FilterPolicy* filter_policy = nullptr;
};

struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  bool verify_checksums = false;
  // Whether the blocks that are read stay in the block cache.
  bool fill_cache = true;
  // Read as of this snapshot of the same database; null: as of now.
  const Snapshot* snapshot = nullptr;
};

struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // The write is on disk before the call returns. Without, it outlives the process, but a failure
  // of the machine may take it.
  bool sync = false;
};

}  // namespace leveldb
