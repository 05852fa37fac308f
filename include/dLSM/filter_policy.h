// Filters tell from local memory that a table does not hold a key, which saves the network round
// trip. Implementations are thread-safe. How long they live, and which threads call them:
// options.h.
#pragma once

#include <string>

#include "dLSM/slice.h"

namespace dlsm {

class BloomFilterPolicy;

class FilterPolicy {
 public:
  virtual ~FilterPolicy() = default;

  // Stored with the database: opening it with a policy of another name, or without one, is an
  // error. So who changes the encoding changes the name, and copies what there is into a new
  // database. Names that start with "dlsm." are the library's: others' policies that have one are
  // refused.
  virtual const char* Name() const = 0;

  // Appends to *filter a summary of keys[0, n), which may hold duplicates.
  virtual void CreateFilter(const Slice* keys, int n, std::string* filter) const = 0;

  // Must return true if the key was in the list that made `filter`; may return true otherwise, but
  // seldom.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;

 private:
  friend const BloomFilterPolicy* AsBuiltIn(const FilterPolicy* policy);
  // The built-in policy alone overrides this. A virtual call finds it where the application was
  // compiled without run-time type information, which a dynamic_cast would need.
  virtual const BloomFilterPolicy* AsBloomFilterPolicy() const { return nullptr; }
};

// A Bloom filter with about this many bits for each key, 1 to 40 (what is beyond counts as the
// nearest of them); 10 give 1% false positives. The caller deletes it, at any time after the last
// Open() that is given it: databases keep their own.
const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace dlsm
