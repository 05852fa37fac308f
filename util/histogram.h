// The distribution of a non-negative quantity (latencies, sizes) within 1%, in fixed memory.
//
// Buckets are log-linear: values below 128 have one each; every further power of two is cut into 64
// equal ones, so a bucket is at most 1/64 of its values wide and its middle within 1/128 of each.
//
// One thread at a time: threads that measure keep one each, merged at the end.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace dlsm {

class Histogram {
 public:
  void Add(uint64_t value) {
    ++counts_[BucketOf(value)];
    ++count_;
    sum_ += static_cast<double>(value);
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }
  void Merge(const Histogram& other);
  void Clear() { *this = Histogram(); }

  uint64_t count() const { return count_; }
  // All are 0 if there are no values. Minimum, maximum and mean are exact.
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double Mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The value that `percent` of all values do not exceed; percent in [0, 100].
  double Percentile(double percent) const;

  // One line: count, mean, P50, P99, P99.9, max.
  std::string ToString() const;

 private:
  static constexpr size_t kLinearBits = 6;
  static constexpr uint64_t kPerOctave = uint64_t{1} << kLinearBits;
  static constexpr uint64_t kExact = 2 * kPerOctave;
  static constexpr size_t kBuckets = kExact + (64 - kLinearBits - 1) * kPerOctave;

  //  value  0 ... 127 | 128 129 | 130 131 | ... | 254 255 | 256 ... 259 | ...
  //  bucket 0 ... 127 |   128   |   129   | ... |   191   |     192     | ...
  static size_t BucketOf(uint64_t value) {
    if (value < kExact) return value;
    const size_t shift = static_cast<size_t>(std::bit_width(value)) - kLinearBits - 1;
    return shift * kPerOctave + (value >> shift);
  }
  static double MiddleOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  uint64_t min_ = std::numeric_limits<uint64_t>::max();
  uint64_t max_ = 0;
};

}  // namespace dlsm
