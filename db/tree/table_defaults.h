// What tables are made and read with: what the options point to, and what they leave open.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "dLSM/cache.h"
#include "dLSM/filter_policy.h"
#include "dLSM/options.h"
#include "db/tree/table_store.h"

namespace dlsm {

// Of the block cache that a handle makes for itself.
inline constexpr size_t kOwnBlockCacheBytes = size_t{8} << 20;

// What a handle uses for its tables. What is built in is its own, or shared with the caller, who
// may delete the object that the options point to. The application's own objects are borrowed.
struct TableObjects {
  // The options have been checked.
  static TableObjects For(const Options& options);

  // As databases record it; empty: no filter.
  std::string FilterName() const {
    return filter_policy == nullptr ? std::string() : filter_policy->Name();
  }

  std::shared_ptr<const FilterPolicy> filter_policy;  // Null: none.
  std::shared_ptr<Cache> block_cache;                 // Null: tables need none.
};

// How a database's tables are made and read.
TableStore::Config TableStoreConfigOf(const Options& options, const TableObjects& objects);

}  // namespace dlsm
