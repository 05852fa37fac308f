// Which comparators are the library's: merges with these can run on memory nodes, and keys that
// they find equal are equal byte for byte.
#pragma once

#include "dLSM/comparator.h"

namespace dlsm {

inline bool IsBuiltIn(const Comparator* comparator) {
  return comparator == BytewiseComparator() || comparator == ReverseBytewiseComparator();
}

}  // namespace dlsm
