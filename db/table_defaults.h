// What tables are read with where the options leave it open.
#pragma once

#include <cstddef>
#include <memory>

#include "dLSM/cache.h"
#include "dLSM/filter_policy.h"
#include "dLSM/options.h"
#include "db/table_store.h"

namespace dlsm {

// Null: none. *own is set if the options have none of their own.
const FilterPolicy* FilterPolicyOf(const Options& options,
                                   std::unique_ptr<const FilterPolicy>* own);

// Of the block cache that a handle makes for itself.
inline constexpr size_t kOwnBlockCacheBytes = size_t{8} << 20;

// Null where the options have a cache, or tables need none.
std::unique_ptr<Cache> OwnBlockCacheFor(const Options& options);

// How a database's tables are made and read; null: no filter, no cache.
TableStore::Config TableStoreConfigOf(const Options& options, const FilterPolicy* filter_policy,
                                      Cache* block_cache);

}  // namespace dlsm
