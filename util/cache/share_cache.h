// How a database keeps the cache that its options point to.
#pragma once

#include <memory>

#include "dLSM/cache.h"

namespace dlsm {

// The entries of a cache from NewLRUCache() stay as long as the result, whatever becomes of
// `cache`. A cache of the application's own is the result itself, which then owns nothing.
std::shared_ptr<Cache> ShareCache(Cache* cache);

}  // namespace dlsm
