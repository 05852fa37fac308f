// A sorted map in a file, which never changes. Thread-safe. The files have a format of their own:
// they are not LevelDB's.
#pragma once

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/iterator.h"

namespace leveldb {

struct Options;
struct ReadOptions;
class RandomAccessFile;

class LEVELDB_EXPORT Table {
 public:
  // Opens the table in [0, file_size) of the file, which stays the caller's and outlives the table.
  // On success *table is the caller's to delete; else it is null.
  static Status Open(const Options& options, RandomAccessFile* file, uint64_t file_size,
                     Table** table);

  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();

  // The result has no position yet. The caller deletes it before the table.
  Iterator* NewIterator(const ReadOptions& options) const;
  // About where the entry of the key begins in the file, or would.
  uint64_t ApproximateOffsetOf(const Slice& key) const;

 private:
  struct Rep;

  explicit Table(Rep* rep) : rep_(rep) {}

  Rep* const rep_;
};

}  // namespace leveldb
