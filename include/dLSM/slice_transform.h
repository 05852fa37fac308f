// Tells the prefix of a key, for iterators that stay within one: ReadOptions::prefix_same_as_start.
// The interface is RocksDB's. A transform is not stored with the database, and may be another one
// at each open.
#pragma once

#include <cstddef>

#include "dLSM/slice.h"

namespace dlsm {

// Thread-safe. No class of the application's needs run-time type information.
class SliceTransform {
 public:
  virtual ~SliceTransform() = default;
  virtual const char* Name() const = 0;
  // The prefix of a key that has one: its first bytes, as a part of `key`. Keys with one prefix
  // follow each other in the order of the database's comparator.
  virtual Slice Transform(const Slice& key) const = 0;
  // Whether the key has a prefix.
  virtual bool InDomain(const Slice& key) const = 0;
};

// The first `bytes` bytes; a shorter key has no prefix. The caller deletes it, or has a shared_ptr
// do so: options.prefix_extractor.reset(NewFixedPrefixTransform(4)).
const SliceTransform* NewFixedPrefixTransform(size_t bytes);
// The same, but the prefix of a shorter key is the whole key.
const SliceTransform* NewCappedPrefixTransform(size_t bytes);

}  // namespace dlsm
