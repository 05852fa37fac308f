#include "util/cache/ghost_list.h"

namespace dlsm {

void GhostList::Add(uint64_t hash, uint64_t size) {
  now_ += size;
  uint64_t* const bucket = BucketOf(hash);
  uint64_t* to = bucket;
  for (uint64_t* slot = bucket; slot < bucket + kBucketSlots; ++slot) {
    if (*slot == 0) {
      to = slot;
      break;
    }
    if (AgeOf(*slot) > AgeOf(*to)) to = slot;
  }
  *to = FingerprintOf(hash) | (now_ & kTimeMask);
}

bool GhostList::Take(uint64_t hash) {
  uint64_t* const bucket = BucketOf(hash);
  for (uint64_t* slot = bucket; slot < bucket + kBucketSlots; ++slot) {
    if (*slot == 0 || FingerprintOf(*slot) != FingerprintOf(hash)) continue;
    const bool lately = AgeOf(*slot) <= span_;
    *slot = 0;
    return lately;
  }
  return false;
}

}  // namespace dlsm
