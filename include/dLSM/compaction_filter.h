// A compaction filter decides what merges drop or change, besides what nobody can read any more.
// The interface is RocksDB's. A filter is of use where data ends by itself: the built-in one drops
// values that have expired.
//
// A merge asks the filter about the newest version of each key that it meets, if that is a value
// and no snapshot sees it that was there when the merge began. A snapshot that is taken while a
// merge is under way sees what the filter removes only until the merge has ended. What a filter
// removes is deleted as by DB::Delete(): iterators and gets find it until a merge has met it, and
// not afterwards. Flushes do not ask. Nothing says when, or whether, a merge meets a key;
// DB::CompactRange() makes merges meet all keys of a range that are not in the deepest level yet.
//
// Merges run on memory nodes, too. A memory node makes its own filter: from the name and the
// parameters of the database's, by a factory that is registered under that name in its process. If
// it knows none, the merge runs on the compute node.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// Thread-safe: merges that run side by side ask one object.
class CompactionFilter {
 public:
  virtual ~CompactionFilter() = default;

  // Fixed for each class. Names that begin with "dlsm." are the library's.
  virtual const char* Name() const = 0;
  // Besides the name, all that a factory needs to make a filter that decides as this one does; at
  // most 64 KiB.
  virtual std::string Parameters() const { return {}; }

  // Returns true if the key is to be removed. To change its value instead: sets *value_changed and
  // *new_value, which is empty before, and returns false. `level`: where the merge puts the key.
  virtual bool Filter(int level, const Slice& key, const Slice& value, std::string* new_value,
                      bool* value_changed) const = 0;
};

// Makes a filter of what CompactionFilter::Parameters() has returned, which may come from another
// machine. Thread-safe.
using CompactionFilterFactory =
    std::function<Status(const Slice& parameters, std::shared_ptr<const CompactionFilter>* filter)>;

// Registers the factory in this process, for memory nodes that run in it: for Server's or for an
// embedded one. InvalidArgument if the name has one already, or begins with "dlsm.".
Status RegisterCompactionFilter(const std::string& name, CompactionFilterFactory factory);

// Removes values that have expired, of keys that begin with `key_prefix`. A value that begins with
// `value_prefix` has the time at which it expires behind that: 8 bytes, little-endian, milliseconds
// since 1970. Other values never expire, nor those with 0 there. Either prefix may be empty. Memory
// nodes know this filter. Time is that of the node that merges.
std::shared_ptr<const CompactionFilter> NewExpiryFilter(const Slice& key_prefix,
                                                        const Slice& value_prefix);

}  // namespace dlsm
