// The resident index of a block-based table, used in place:
//
//   | header | key ends | block ends | prefix | keys | zeros | CRC32C: 4 |
//
//   header      version: 4 | blocks: 4 | key bytes: 4 | in version 2 prefix bytes: 4
//   key ends    4 bytes a block: where its separator ends in the keys
//   block ends  4 bytes a block: where it ends in the data
//   prefix      what all separators begin with, in version 2: it is written where that is long, and
//               the order is one of the built-in two
//   keys        separators, without the prefix: internal keys; one at or after all keys of its
//   block
//               and before all keys of the next one
//   zeros       so that the size is a multiple of 64: filters like their lines aligned
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/internal_key.h"

namespace dlsm {

inline constexpr uint64_t kBlockTableDataBytesMax = UINT32_MAX;

class BlockTableIndexBuilder {
 public:
  explicit BlockTableIndexBuilder(const InternalKeyComparator& comparator)
      : comparator_(comparator) {}

  // The next block ends at `end` of the data.
  void Add(const Slice& separator, uint64_t end);
  // The first separator; empty if there is none.
  Slice first() const { return key_ends_.empty() ? Slice() : Key(0); }
  uint64_t BytesBound() const;
  static uint64_t BlockBytesBound(size_t internal_key_bytes) { return internal_key_bytes + 8; }
  void Finish(std::string* to) const;

 private:
  size_t PrefixBytes() const;
  Slice Key(size_t block) const;

  const InternalKeyComparator comparator_;
  std::vector<uint32_t> key_ends_;
  std::vector<uint32_t> block_ends_;
  std::string keys_;
};

// A short internal key at or after `last` and before `next`, which follow one another.
std::string SeparatorBetween(const InternalKeyComparator& comparator, const Slice& last,
                             const Slice& next);
// The same for the table's last key, which is its own separator unless it is long. `first`: the
// first separator of the table, with which it has the same bytes in common; null: there is none.
std::string SeparatorBehind(const InternalKeyComparator& comparator, const Slice* first,
                            const Slice& last);

// Immutable after Open(); the bytes are the caller's.
class BlockTableIndex {
 public:
  explicit BlockTableIndex(const InternalKeyComparator& comparator) : comparator_(comparator) {}

  Status Open(const Slice& bytes, uint64_t data_bytes);

  uint32_t blocks() const { return blocks_; }
  uint64_t BlockBegin(uint32_t block) const { return block == 0 ? 0 : BlockEnd(block - 1); }
  uint64_t BlockEnd(uint32_t block) const;
  // The first block that can hold keys at or after `internal_key`; blocks() if there is none.
  uint32_t BlockFor(const Slice& internal_key) const;
  // The block that covers `offset`, which is within the data.
  uint32_t BlockAt(uint64_t offset) const;

 private:
  Slice Key(uint32_t block) const;  // Without the prefix.

  const InternalKeyComparator comparator_;
  uint32_t blocks_ = 0;
  Slice prefix_;
  const char* key_ends_ = nullptr;
  const char* block_ends_ = nullptr;
  const char* keys_ = nullptr;
};

}  // namespace dlsm
