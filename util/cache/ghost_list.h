// What left a cache lately, by fingerprint alone: who comes back soon after was let go too early.
//
// Time is counted in what has left. A hint: fingerprints collide, and a bucket that is full forgets
// its oldest one early. One thread at a time.
#pragma once

#include <cstdint>

namespace dlsm {

class GhostList {
 public:
  // `slots`, of which there are `count`, a multiple of kBucketSlots, are zero and outlive the list.
  // Who left is remembered until others of `span` in all have left as well.
  GhostList(uint64_t* slots, uint64_t count, uint64_t span)
      : slots_(slots), buckets_(count / kBucketSlots), span_(span) {}
  GhostList(const GhostList&) = delete;
  GhostList& operator=(const GhostList&) = delete;

  static constexpr uint64_t kBucketSlots = 4;

  // Of something of that size.
  void Add(uint64_t hash, uint64_t size);
  // Whether it left lately; it is forgotten.
  bool Take(uint64_t hash);

 private:
  static constexpr int kTimeBits = 40;
  static constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;

  uint64_t* BucketOf(uint64_t hash) { return slots_ + hash % buckets_ * kBucketSlots; }
  static uint64_t FingerprintOf(uint64_t hash) { return hash & ~kTimeMask; }
  uint64_t AgeOf(uint64_t slot) const { return (now_ - slot) & kTimeMask; }

  uint64_t* const slots_;  // | fingerprint: 24 bits | time: 40 bits |; 0: free.
  const uint64_t buckets_;
  const uint64_t span_;
  uint64_t now_ = 1;
};

}  // namespace dlsm
