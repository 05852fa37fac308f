// Ranges of bytes as rows have them.
#pragma once

#include <vector>

#include "memory_node/accounts/byte_ranges.h"
#include "memory_node/store/stored_state.h"

namespace dlsm {

inline std::vector<StoredRange> ToStored(const ByteRanges& ranges) {
  std::vector<StoredRange> stored;
  stored.reserve(ranges.ranges().size());
  for (const auto& [begin, end] : ranges.ranges()) stored.push_back({begin, end});
  return stored;
}

}  // namespace dlsm
