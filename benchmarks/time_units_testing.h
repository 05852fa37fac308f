// Units of the times that benchmarks measure, which are in nanoseconds.
#pragma once

#include <cstdint>

namespace dlsm::bench {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kSecond = 1000 * kMs;

}  // namespace dlsm::bench
