// A run as who reads it sees it: tables side by side, and where among them a key belongs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/internal_key.h"
#include "table/key_prefix.h"
#include "table/table_reader.h"

namespace dlsm {

// What it points to is the owner's, and outlives it.
struct RunView {
  std::span<const TableReader* const> tables;  // Ascending, disjoint.
  // Of the tables' largest user keys, behind `prefix`, which all of them start with. Null: a search
  // compares the keys themselves.
  const uint64_t* digests = nullptr;
  Slice prefix;

  // A user key, as it is searched for in runs with one prefix.
  class Target {
   public:
    Target(const Slice& prefix, const Slice& user_key);

   private:
    friend struct RunView;
    int order_;  // Of the key beside the prefix; 0: it starts with it.
    uint64_t digest_;
  };

  // The number of the first table whose largest key is at or behind `internal_key`, whose target is
  // given; tables.size() if there is none.
  size_t FirstNotBefore(const InternalKeyComparator& comparator, const Slice& internal_key,
                        const Target& target) const;
  size_t FirstNotBefore(const InternalKeyComparator& comparator, const Slice& internal_key) const {
    return FirstNotBefore(comparator, internal_key, Target(prefix, ExtractUserKey(internal_key)));
  }
};

}  // namespace dlsm
