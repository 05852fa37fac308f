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
#include <cstring>
#include <string>
#include <utility>

#include "dLSM/filter_policy.h"
#include "dLSM/slice.h"

namespace dlsm {

// The built-in policy, for those who keep hashes instead of keys while they build a table.
class BloomFilterPolicy final : public FilterPolicy {
 public:
  static constexpr const char* kName = "dlsm.BlockedBloomFilter";

  // What is out of [1, 40] is brought into it.
  explicit BloomFilterPolicy(int bits_per_key);

  const char* Name() const override { return kName; }
  void CreateFilter(const Slice* keys, int n, std::string* filter) const override;
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override;

  int bits_per_key() const { return bits_per_key_; }

 private:
  const BloomFilterPolicy* AsBloomFilterPolicy() const override { return this; }

  const int bits_per_key_;
};

// nullptr if the policy is the user's own, or null.
const BloomFilterPolicy* AsBuiltIn(const FilterPolicy* policy);

// Appends to *filter. Hashes may repeat.
void BuildBloomFilter(const uint64_t* hashes, size_t n, int bits_per_key, std::string* filter);

// Never false for a hash that the filter was built with. Bytes that are no filter match everything.
// Lines are one cache line each if the filter's first byte is at a multiple of 64.
bool BloomMayMatch(uint64_t hash, const Slice& filter);

// A filter taken apart, so that who asks many of them touches nothing but their lines.
struct BloomLines {
  static constexpr size_t kBytes = 64;

  // Without lines if the bytes are no filter, or one of no keys: BloomMayMatch() tells which.
  explicit BloomLines(const Slice& filter);

  bool empty() const { return count == 0; }
  const char* LineOf(uint64_t hash) const {
    return lines + ((static_cast<Wide>(hash) * count) >> 64) * kBytes;
  }

  __extension__ using Wide = unsigned __int128;
  const char* lines = nullptr;
  uint32_t count = 0;
  uint32_t probes = 0;
};

// The bits of one hash within a line. They are the same in every filter that makes as many probes,
// so they are computed once for all, and looked at all at once; but the first filter is asked bit
// by bit, for it may be the only one.
class BloomBits {
 public:
  explicit BloomBits(uint64_t hash) : hash_(hash) {}

  uint64_t hash() const { return hash_; }

  // As BloomMayMatch(), of the hash's line in such a filter.
  bool MayMatch(const char* line, uint32_t probes) {
    if (probes != probes_) [[unlikely]] {
      if (!std::exchange(asked_, true)) return MayMatchBitByBit(line, probes);
      Compute(probes);
    }
    uint64_t missing = 0;
    for (size_t i = 0; i < kWords; ++i) {
      uint64_t word;
      std::memcpy(&word, line + i * sizeof(word), sizeof(word));
      missing |= bits_[i] & ~word;
    }
    return missing == 0;
  }

 private:
  static constexpr size_t kWords = BloomLines::kBytes / sizeof(uint64_t);

  bool MayMatchBitByBit(const char* line, uint32_t probes) const;
  void Compute(uint32_t probes);

  const uint64_t hash_;
  bool asked_ = false;
  uint32_t probes_ = 0;
  uint64_t bits_[kWords] = {};
};

}  // namespace dlsm
