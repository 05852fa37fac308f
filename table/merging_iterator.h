// The union of several sorted sources in one order.
#pragma once

#include <memory>
#include <vector>

#include "dLSM/iterator.h"
#include "table/internal_key.h"

namespace dlsm {

// Over internal keys, which are unique among all sources. With one source that source is returned,
// with none an empty iterator.
std::unique_ptr<Iterator> NewMergingIterator(const InternalKeyComparator& comparator,
                                             std::vector<std::unique_ptr<Iterator>> sources);

}  // namespace dlsm
