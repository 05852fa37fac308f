// What tables are read with where the options leave it open.
#pragma once

#include <memory>

#include "dLSM/cache.h"
#include "dLSM/filter_policy.h"
#include "dLSM/options.h"

namespace dlsm {

// Null: none. *own is set if the options have none of their own.
const FilterPolicy* FilterPolicyOf(const Options& options,
                                   std::unique_ptr<const FilterPolicy>* own);

// Null where the options have a cache, or tables need none.
std::unique_ptr<Cache> OwnBlockCacheFor(const Options& options);

}  // namespace dlsm
