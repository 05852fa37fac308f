// The built-in filter: a Bloom filter whose probes for one key all lie in one cache line, so that a
// lookup costs one cache miss. (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom
// Filters", 2007.)
//
//   filter:   line (64 bytes)* | probes for each key (1 byte)
//
// The hash is Hash64() of the user key. Its place among the lines comes from the hash's upper bits,
// the bits within the line from a remix of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/filter_policy.h"
#include "dLSM/slice.h"

namespace dlsm {

// The built-in policy, for those who keep hashes instead of keys while they build a table.
class BloomFilterPolicy final : public FilterPolicy {
 public:
  // What is out of [1, 40] is brought into it.
  explicit BloomFilterPolicy(int bits_per_key);

  const char* Name() const override { return "dlsm.BlockedBloomFilter"; }
  void CreateFilter(const Slice* keys, int n, std::string* filter) const override;
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override;

  int bits_per_key() const { return bits_per_key_; }

 private:
  const int bits_per_key_;
};

// nullptr if the policy is the user's own, or null.
const BloomFilterPolicy* AsBuiltIn(const FilterPolicy* policy);

// Appends to *filter. Hashes may repeat.
void BuildBloomFilter(const uint64_t* hashes, size_t n, int bits_per_key, std::string* filter);

// Never false for a hash that the filter was built with. Bytes that are no filter match everything.
// Lines are one cache line each if the filter's first byte is at a multiple of 64.
bool BloomMayMatch(uint64_t hash, const Slice& filter);

// Brings the line that BloomMayMatch will look at closer to the processor.
void PrefetchBloomLine(uint64_t hash, const Slice& filter);
// That, and what tells how to look at it.
void PrefetchBloom(uint64_t hash, const Slice& filter);

}  // namespace dlsm
