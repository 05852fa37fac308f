// The file of a leveldb::Table: sorted entries in blocks, with an index. All integers are
// little-endian.
//
//     | block* | index | footer |
//     block:   | payload | kind: 1 | CRC-32C of payload and kind: 4 |
//     payload: | (key bytes: varint32 | value bytes: varint32 | key | value)* |
//
//     index:   | comparator's name | (last key | offset: varint64 | payload bytes: varint64)* |
//
//     footer:  | offset of the index: 8 | its payload bytes: 8 | entries: 8 | version: 4 |
//              | CRC-32C of the footer so far: 4 | magic: 8 |
//
// The index is the payload of a block, too. A block of kind 1 is compressed by snappy, one of kind
// 0 is not. Names and last keys have their length before them, as a varint32.
//
// Blocks follow each other without gaps, and so do the keys of the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "leveldb/env.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace dlsm::compat {

inline constexpr size_t kBlockTrailerBytes = 5;

// A block in the file, without its trailer.
struct BlockPlace {
  std::string last_key;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Makes a block of *payload, in place: compresses it if that is asked for and makes it smaller, and
// appends the trailer. Returns the bytes of the payload.
uint64_t FinishBlock(bool compress, std::string* payload);

// Of a data block.
void AppendEntry(const leveldb::Slice& key, const leveldb::Slice& value, std::string* payload);

class BlockEntries {
 public:
  // Reads the block, and takes it apart. Corruption if it is damaged; then there are no entries.
  leveldb::Status Read(const leveldb::RandomAccessFile& file, const BlockPlace& place);

  size_t size() const { return entries_.size(); }
  leveldb::Slice key(size_t i) const { return entries_[i].first; }
  leveldb::Slice value(size_t i) const { return entries_[i].second; }

 private:
  leveldb::Status Parse();

  std::string payload_;
  std::vector<std::pair<leveldb::Slice, leveldb::Slice>> entries_;
};

// What a table is opened by.
struct TableIndex {
  std::string comparator;
  std::vector<BlockPlace> blocks;
  uint64_t offset = 0;  // Of the index: the data's end.
  uint64_t entries = 0;

  // The index and the footer.
  std::string Encode() const;
  // InvalidArgument if the file is no table; Corruption if it is damaged. *this is whole only if
  // OK is returned.
  leveldb::Status Read(const leveldb::RandomAccessFile& file, uint64_t file_bytes);

 private:
  leveldb::Status Parse(const leveldb::Slice& payload);
};

}  // namespace dlsm::compat
