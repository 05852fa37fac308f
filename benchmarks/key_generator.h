// Which key comes next, and its bytes.
//
// A key is named by its index in [0, num): its bytes are the index in decimal, padded with zeros in
// front to the key size, as in RocksDB's db_bench. So the order of indexes is the order of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/slice.h"
#include "util/random.h"

namespace dlsm::bench {

enum class Distribution { kUniform, kZipfian, kLatest };

// The least key size that keeps `num` keys apart.
size_t KeyBytesMin(uint64_t num);

// Writes keys into a buffer of its own; each call overwrites the last key. One thread.
class KeyFormatter {
 public:
  // Keys are numbered from `first` on: index 0 is the key of that number.
  explicit KeyFormatter(size_t key_bytes, uint64_t first = 0)
      : buffer_(key_bytes, '0'), first_(first) {}

  // `index` has at most key_bytes digits.
  Slice Format(uint64_t index) {
    WriteDigits(first_ + index, buffer_.data(), buffer_.size());
    return Slice(buffer_);
  }
  // A key of the same size that sorts right before Format(index) and that no index names.
  Slice FormatAbsent(uint64_t index) {
    WriteDigits(first_ + index, buffer_.data(), buffer_.size());
    buffer_.back() = '.';
    return Slice(buffer_);
  }

  static void WriteDigits(uint64_t index, char* to, size_t bytes);

 private:
  std::string buffer_;
  uint64_t first_;
};

// A bijection of [0, n) that looks random: a Feistel network, whose halves may differ by a bit,
// over the bits that n - 1 needs, walked until the result is below n: twice on average at most.
// Thread-safe.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed);

  uint64_t Map(uint64_t index) const {
    do index = Encrypt(index);
    while (index >= n_);
    return index;
  }

 private:
  static constexpr int kRounds = 2;  // Each changes both halves.
  uint64_t Encrypt(uint64_t index) const;

  uint64_t n_;
  int right_bits_;
  uint64_t left_mask_;
  uint64_t right_mask_;
  uint64_t keys_[2 * kRounds];
};

// Ranks in [0, n), rank r with probability proportional to 1 / (r + 1)^theta, in constant time and
// memory: rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates
// from monotone discrete distributions", 1996). Thread-safe.
class ZipfSampler {
 public:
  // 0 < theta; n > 0.
  ZipfSampler(uint64_t n, double theta);

  uint64_t Sample(Random& random) const;

 private:
  // The integral of x^-theta, its inverse, and the density itself.
  double Integral(double x) const;
  double IntegralInverse(double y) const;
  double Density(double x) const;

  double n_;
  double theta_;
  double integral_at_start_;
  double integral_at_end_;
  double accept_below_;
};

// Draws indexes from [0, num). Thread-safe: the state is in the caller's Random.
//   uniform  every key alike
//   zipfian  few keys often; which ones they are is scrambled over the whole range
//   latest   the highest index most often, then the one below, ... as zipfian
class KeyChooser {
 public:
  KeyChooser(uint64_t num, Distribution distribution, double zipf_theta);

  uint64_t Choose(Random& random) const {
    switch (distribution_) {
      case Distribution::kUniform:
        break;
      case Distribution::kZipfian:
        return scramble_.Map(zipf_.Sample(random));
      case Distribution::kLatest:
        return num_ - 1 - zipf_.Sample(random);
    }
    return random.Uniform(num_);
  }

 private:
  uint64_t num_;
  Distribution distribution_;
  ZipfSampler zipf_;
  Permutation scramble_;
};

}  // namespace dlsm::bench
