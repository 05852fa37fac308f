// Values that can be told from (seed, key, version) alone, so that they cost nothing to make and
// whoever knows the three can check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/slice.h"
#include "util/random.h"

namespace dlsm::bench {

// A value is a window of one buffer of random bytes; where it begins is a hash of seed, key and
// version. Thread-safe after construction.
class ValueGenerator {
 public:
  // Each piece of the buffer compresses to about `compression_ratio` (0, 1] of its size.
  ValueGenerator(uint64_t seed, size_t value_bytes, double compression_ratio);

  // Valid as long as the generator.
  Slice Value(uint64_t key_index, uint32_t version) const {
    const uint64_t hash = SplitMix64(seed_ ^ SplitMix64(key_index << 16 ^ version));
    return Slice(bytes_.data() + hash % kWindows, value_bytes_);
  }

 private:
  // 1 MB: small beside any data set, far more windows than versions of one key.
  static constexpr uint64_t kWindows = uint64_t{1} << 20;

  uint64_t seed_;
  size_t value_bytes_;
  std::string bytes_;
};

}  // namespace dlsm::bench
