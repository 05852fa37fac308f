// The usual order of internal keys, for tests of what is given an order.
#pragma once

#include "dLSM/comparator.h"
#include "table/internal_key.h"

namespace dlsm {

inline const InternalKeyComparator& Bytewise() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return comparator;
}

}  // namespace dlsm
