// A small, fast generator of pseudo-random numbers (xoshiro256++, seeded by splitmix64; Blackman
// and Vigna). The same seed gives the same numbers on every machine. Not for secrets. One thread at
// a time.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace dlsm {

// A bijection of 64-bit integers whose results look random.
inline uint64_t SplitMix64(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class Random {
 public:
  // So that the standard library's shuffle and distributions take a Random.
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  uint64_t operator()() { return Next(); }

  explicit Random(uint64_t seed) {
    constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
    for (uint64_t& word : state_) {
      word = SplitMix64(seed);
      seed += kStep;
    }
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // In [0, n). The bias is below n / 2^64.
  uint64_t Uniform(uint64_t n) {
    assert(n > 0);
    return static_cast<uint64_t>((static_cast<Wide>(Next()) * n) >> 64);
  }
  // True about once in n times.
  bool OneIn(uint64_t n) { return Uniform(n) == 0; }
  // In [0, 1).
  double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // In [0, 2^bits_max), each magnitude equally likely: small numbers often, large ones seldom.
  uint64_t Skewed(int bits_max) {
    assert(0 <= bits_max && bits_max < 64);
    return Uniform(uint64_t{1} << Uniform(static_cast<uint64_t>(bits_max) + 1));
  }
  std::string Bytes(size_t bytes) {
    std::string result(bytes, '\0');
    for (char& byte : result) byte = static_cast<char>(Next() >> 56);
    return result;
  }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t state_[4];
};

}  // namespace dlsm
