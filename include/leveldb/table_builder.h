// Writes a table into a file. One thread at a time uses it. The files have a format of their own:
// they are not LevelDB's.
#pragma once

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/options.h"
#include "leveldb/status.h"

namespace leveldb {

class WritableFile;

class LEVELDB_EXPORT TableBuilder {
 public:
  // The file stays the caller's, to be closed after Finish().
  TableBuilder(const Options& options, WritableFile* file);
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  // Finish() or Abandon() was called before.
  ~TableBuilder();

  // For the blocks to come. InvalidArgument if the comparator is another one.
  Status ChangeOptions(const Options& options);
  // The key is behind all that were added before; else status() is InvalidArgument.
  void Add(const Slice& key, const Slice& value);
  // Ends the block.
  void Flush();
  // The first error.
  Status status() const;
  // Writes all that is left.
  Status Finish();
  // Gives up: the file's contents mean nothing.
  void Abandon();
  // Calls of Add() so far.
  uint64_t NumEntries() const;
  // Bytes of the file so far; after Finish(), of the file.
  uint64_t FileSize() const;

 private:
  struct Rep;
  Rep* rep_;
};

}  // namespace leveldb
