// How often a call took how long: the counts of one thread, which other threads may read meanwhile.
//
// Buckets are log-linear: up to 16 ns there is one for each nanosecond, and every further power of
// two is cut into 8 equal ones. A bucket has its upper bound, so that all powers of two are bounds:
//   nanoseconds  0 1 | 2 | ... | 16 | 17 18 | 19 20 | ... | 31 32 | 33 ... 36 | ...
//   bucket        0  | 1 | ... | 15 |  16   |  17   | ... |  23   |    24     | ...
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "dLSM/statistics.h"

namespace dlsm {

struct LatencyBuckets {
  static constexpr size_t kExactBits = 4;
  static constexpr size_t kPerPower = size_t{1} << (kExactBits - 1);
  // Of 2^40 ns, 18 minutes. Longer calls are in one bucket more.
  static constexpr size_t kPowerMax = HistogramData::kPowers - 1;
  static constexpr size_t kBounded = (kPowerMax - kExactBits + 2) * kPerPower;
  static constexpr size_t kCount = kBounded + 1;

  static size_t Of(uint64_t nanos) {
    const uint64_t below = nanos == 0 ? 0 : nanos - 1;
    if (below < (uint64_t{1} << kExactBits)) return below;
    if (below >= (uint64_t{1} << kPowerMax)) return kBounded;
    const size_t shift = static_cast<size_t>(std::bit_width(below)) - kExactBits;
    return shift * kPerPower + (below >> shift);
  }
  // The longest time in the bucket; of the last one, as if it had the width of the one before.
  static uint64_t UpperBound(size_t bucket) {
    if (bucket < 2 * kPerPower) return bucket + 1;
    const size_t shift = bucket / kPerPower - 1;
    return (uint64_t{bucket % kPerPower} + kPerPower + 1) << shift;
  }
};

// Sums over threads. They are plain numbers of one thread.
class LatencySums {
 public:
  // What `begin`, which was taken earlier, had already does not count.
  void Subtract(const LatencySums& begin);
  HistogramData Data() const;

 private:
  friend class LatencyCounts;

  double Percentile(double percent, uint64_t count) const;

  std::array<uint64_t, LatencyBuckets::kCount> counts_{};
  uint64_t nanos_ = 0;
};

// One thread adds. Relaxed: counts order nothing.
class LatencyCounts {
 public:
  void Add(uint64_t nanos, uint64_t calls = 1) {
    Grow(&counts_[LatencyBuckets::Of(nanos)], calls);
    Grow(&nanos_, nanos * calls);
  }
  // By any thread.
  void AddTo(LatencySums* sums) const;

 private:
  static void Grow(std::atomic<uint64_t>* count, uint64_t by) {
    count->store(count->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, LatencyBuckets::kCount> counts_{};
  std::atomic<uint64_t> nanos_{0};
};

}  // namespace dlsm
