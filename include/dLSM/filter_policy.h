// Filters tell from local memory that a table does not hold a key, which saves the network round
// trip. Implementations are thread-safe.
#pragma once

#include <string>

#include "dLSM/slice.h"

namespace dlsm {

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
};

// A Bloom filter with about this many bits for each key, 1 to 40 (what is beyond counts as the
// nearest of them); 10 give 1% false positives. The caller deletes it after every database that
// uses it is closed.
const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace dlsm
