// Objects of an application that is compiled without run-time type information (-fno-rtti), as
// applications of LevelDB may be.
#pragma once

#include <cstddef>
#include <memory>

#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/filter_policy.h"
#include "dLSM/slice_transform.h"

namespace dlsm {

// Bytewise, under a name of its own.
std::unique_ptr<const Comparator> ComparatorWithoutRtti();

// Its filters are "x", and match everything.
std::unique_ptr<const FilterPolicy> FilterPolicyWithoutRtti();

// The prefix is what ends with the first slash; a key without one has none.
std::shared_ptr<const SliceTransform> UpToSlashWithoutRtti();

// A cache that passes everything on to one from NewLRUCache().
std::unique_ptr<Cache> CacheWithoutRtti(size_t capacity);

}  // namespace dlsm
