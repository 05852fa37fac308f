// The regions of one memory node, and the check that every remote span passes before it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

struct MappedRegion {
  RegionId id{};
  char* data = nullptr;  // Null where this process cannot address it.
  uint64_t bytes = 0;
};

// Constant once filled, so any thread may look. A node has one or two regions: the search is a
// comparison or two.
class RegionTable {
 public:
  void Add(const MappedRegion& region) { regions_.push_back(region); }

  // nullptr when there is no such region or the range is not inside it. Cannot overflow, whatever
  // the peer sent.
  const MappedRegion* Find(RegionId id, uint64_t offset, uint64_t bytes) const {
    for (const MappedRegion& region : regions_) {
      if (region.id != id) continue;
      const bool inside = offset <= region.bytes && bytes <= region.bytes - offset;
      return inside ? &region : nullptr;
    }
    return nullptr;
  }

  // Says why Find() refused `span`.
  Status WhyNot(const RemoteSpan& span) const;

 private:
  std::vector<MappedRegion> regions_;
};

inline constexpr uint64_t kAtomicWordBytes = 8;
inline bool IsAtomicWord(uint64_t offset) { return offset % kAtomicWordBytes == 0; }

}  // namespace dlsm
