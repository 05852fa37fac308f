// A filter is a small summary of the keys of a table. It tells of most other keys that the table
// does not have them. Many threads call one policy at once.
#pragma once

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  // A policy whose filters look different has another name.
  virtual const char* Name() const = 0;
  // Appends a filter of keys[0, n) to *dst.
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;
  // Returns true for each key that `filter` was made of, and for few others.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

// Bloom filters; with ten bits for each key about one lookup in a hundred is in vain. The caller
// deletes the policy after the databases that use it.
LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb
