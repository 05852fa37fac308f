// The order of keys. Many threads call one comparator at once, those of the database among them.
#pragma once

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Below 0, 0 or above 0, as `a` is before, equal to or after `b`. A total order.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;
  // Stored with the database, which is opened with a comparator of this name ever after. Names that
  // begin with "leveldb." are the library's.
  virtual const char* Name() const = 0;
  // If *start < limit, may change *start to a shorter key of [start, limit).
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;
  // May change *key to a shorter key that is not before it.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// By unsigned bytes. The library's; never deleted.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb
