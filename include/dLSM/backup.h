// Backups: what a database holds at one moment, in one file that needs nothing else.
//
// WriteBackup() copies an open database, of an owner or of a follower, while others read and write
// it. RestoreBackup() writes such a file into a database, on any memory nodes, with any shape and
// any number of shards. doc/formats.md has the format, doc/operations.md tells how backups are
// used.
//
// The functions may be called by many threads at once. All errors name the file, and what to do:
//   * NotFound: there is no such file.
//   * Corruption: the file is truncated, damaged or no backup; names the offset.
//   * NotSupported: a later version of this library wrote the file.
//   * InvalidArgument: an option or a path cannot be, or does not fit what the file holds.
//   * Busy: another WriteBackup() to the same path is under way.
//   * IOError: the file cannot be written or read, as on a full disk.
//
// And what a database may return for its reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"

namespace dlsm {

class DB;
class Snapshot;

struct BackupOptions {
  // Of each block of entries; one that would not become smaller is stored as it is.
  CompressionType compression = kSnappyCompression;
  // Bytes of keys and values in a block, 1 KiB to 16 MiB; the last entry may go beyond.
  size_t block_bytes = size_t{256} << 10;
  // Copies what this snapshot of the database sees; null: the database as of the call.
  const Snapshot* snapshot = nullptr;
};

// What a backup holds.
struct BackupInfo {
  uint32_t version = 0;  // Of the format.
  uint64_t entries = 0;
  uint64_t bytes = 0;  // Of all keys and values.
  uint64_t blocks = 0;
  uint64_t file_bytes = 0;
  uint64_t written_unix_micros = 0;  // When the copy began.
  // Of the database that was copied. Only one with the same comparator can take the backup.
  std::string comparator;
  std::string filter_policy;                  // Is empty if there is none.
  std::vector<std::string> shard_boundaries;  // One less than it had shards.
};

struct RestoreOptions {
  // Deletes all entries of a database that is not empty, and then restores. Without
  // it such a database is an InvalidArgument, and stays as it is.
  bool overwrite = false;
  // Reads the whole file once before anything is written, so that a damaged one changes nothing.
  bool check_first = true;
};

// Copies the database into the file `path`. The copy is of one moment, in all shards; entries that
// the moment does not see, such as deleted ones, are not in it. Writers are not stopped. The
// database keeps the versions of that moment until the copy is complete.
// The file gets its name, and replaces one that has it, when it is complete and on disk. Until then
// it is `path` with ".tmp" behind it, which an error removes; after a crash the next call to the
// same path does. `info` may be null.
// A handle that owns a range of the keys (Options::compute_boundaries) copies that range.
Status WriteBackup(DB* db, const BackupOptions& options, const std::string& path, BackupInfo* info);

// Reads all of the file, and checks every checksum. `info` may be null; it is set if this is OK.
Status CheckBackup(const std::string& path, BackupInfo* info);

// Writes all entries of the file into an empty database, and flushes. Nobody else may write it
// meanwhile. If it fails after it has begun to write, the database holds a part of the entries: the
// error says so, and a restore with `overwrite` begins anew. `info` may be null.
Status RestoreBackup(const std::string& path, DB* db, const RestoreOptions& restore,
                     BackupInfo* info);
// Opens the database `name`, or makes it, restores and closes it. A database that is made gets the
// shards that the copied one had, unless `options` divide it otherwise.
Status RestoreBackup(const std::string& path, const Options& options, const std::string& name,
                     const RestoreOptions& restore, BackupInfo* info);

}  // namespace dlsm
