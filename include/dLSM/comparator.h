// The order of keys. Implementations are thread-safe. How long they live, and which threads call
// them: options.h.
#pragma once

#include <string>

#include "dLSM/slice.h"

namespace dlsm {

class Comparator {
 public:
  virtual ~Comparator() = default;

  // < 0, 0, > 0 as a is before, equal to or after b. A total order. Keys that are equal may have
  // different bytes: the last one that was written counts. Then a FilterPolicy, if there is one,
  // has to treat them alike, which the built-in one does not.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // Stored with the database: opening it with a comparator of another name is an error. Names that
  // start with "dlsm." are the library's: others' comparators that have one are refused.
  virtual const char* Name() const = 0;

  // If *start < limit, may change *start to a shorter key in [start, limit). May do nothing. Makes
  // the indexes of block-based tables smaller.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;
  // May change *key to a shorter key >= *key. May do nothing. Here for comparators that were
  // written for LevelDB: nothing calls it.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Lexicographic by unsigned bytes. The library's, never to be deleted; good for as long as the
// process runs, to its static objects, too.
const Comparator* BytewiseComparator();
// The opposite order.
const Comparator* ReverseBytewiseComparator();

}  // namespace dlsm
