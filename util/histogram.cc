#include "util/histogram.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace dlsm {

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Histogram::MiddleOf(size_t bucket) {
  if (bucket < kExact) return static_cast<double>(bucket);
  const auto shift = static_cast<int>(bucket / kPerOctave) - 1;
  const double first = std::ldexp(static_cast<double>(bucket % kPerOctave + kPerOctave), shift);
  return first + (std::ldexp(1, shift) - 1) / 2;
}

double Histogram::Percentile(double percent) const {
  assert(0 <= percent && percent <= 100);
  if (count_ == 0) return 0;
  const double wanted = std::ceil(percent / 100 * static_cast<double>(count_));
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  if (rank >= count_) return static_cast<double>(max_);
  uint64_t passed = 0;
  size_t bucket = 0;
  while (passed += counts_[bucket], passed < rank && bucket + 1 < kBuckets) ++bucket;
  return std::clamp(MiddleOf(bucket), static_cast<double>(min_), static_cast<double>(max_));
}

std::string Histogram::ToString() const {
  return fmt::format("count {} mean {:.2f} P50 {:.2f} P99 {:.2f} P99.9 {:.2f} max {}", count_,
                     Mean(), Percentile(50), Percentile(99), Percentile(99.9), max_);
}

}  // namespace dlsm
