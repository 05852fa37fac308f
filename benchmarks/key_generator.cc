#include "benchmarks/key_generator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace dlsm::bench {
namespace {

// "00" "01" ... "99".
struct DigitPairs {
  char bytes[200];
  constexpr DigitPairs() : bytes() {
    for (size_t i = 0; i < 100; ++i) {
      bytes[2 * i] = static_cast<char>('0' + i / 10);
      bytes[2 * i + 1] = static_cast<char>('0' + i % 10);
    }
  }
};
constexpr DigitPairs kDigitPairs;

// log(1 + x) / x and (exp(x) - 1) / x, which stay exact where x, that is 1 - theta, is near 0.
double LogRatio(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2 + x * x / 3; }
double ExpRatio(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2 + x * x / 6; }

// The high bits of a product depend on all bits of its factors.
uint64_t Mix(uint64_t value) { return (value * 0x9e3779b97f4a7c15) >> 32; }

}  // namespace

size_t KeyBytesMin(uint64_t num) {
  size_t digits = 1;
  for (uint64_t last = num > 0 ? num - 1 : 0; last >= 10; last /= 10) ++digits;
  return digits;
}

void KeyFormatter::WriteDigits(uint64_t index, char* to, size_t bytes) {
  char* at = to + bytes;
  while (index >= 10 && at - to >= 2) {
    at -= 2;
    std::memcpy(at, kDigitPairs.bytes + 2 * (index % 100), 2);
    index /= 100;
  }
  if (index > 0 && at > to) {
    *--at = static_cast<char>('0' + index % 10);
    index /= 10;
  }
  assert(index == 0);
  std::memset(to, '0', static_cast<size_t>(at - to));
}

Permutation::Permutation(uint64_t n, uint64_t seed) : n_(n) {
  assert(n > 0);
  const int bits = std::max(2, static_cast<int>(std::bit_width(n - 1)));
  right_bits_ = bits / 2;
  right_mask_ = (uint64_t{1} << right_bits_) - 1;
  left_mask_ = (uint64_t{1} << (bits - right_bits_)) - 1;
  Random random(seed);
  for (uint64_t& key : keys_) key = random.Next();
}

uint64_t Permutation::Encrypt(uint64_t index) const {
  uint64_t left = index >> right_bits_;
  uint64_t right = index & right_mask_;
  for (int i = 0; i < 2 * kRounds; i += 2) {
    left ^= Mix(right ^ keys_[i]) & left_mask_;
    right ^= Mix(left ^ keys_[i + 1]) & right_mask_;
  }
  return left << right_bits_ | right;
}

ZipfSampler::ZipfSampler(uint64_t n, double theta) : n_(static_cast<double>(n)), theta_(theta) {
  assert(n > 0 && theta > 0);
  integral_at_start_ = Integral(1.5) - 1;
  integral_at_end_ = Integral(n_ + 0.5);
  accept_below_ = 2 - IntegralInverse(Integral(2.5) - Density(2));
}

double ZipfSampler::Integral(double x) const {
  const double log_x = std::log(x);
  return ExpRatio((1 - theta_) * log_x) * log_x;
}

double ZipfSampler::IntegralInverse(double y) const {
  // Rounding can push the argument just below where the logarithm ends.
  const double t = std::max(-1.0, y * (1 - theta_));
  return std::exp(LogRatio(t) * y);
}

double ZipfSampler::Density(double x) const { return std::exp(-theta_ * std::log(x)); }

uint64_t ZipfSampler::Sample(Random& random) const {
  while (true) {
    const double u =
        integral_at_end_ + random.NextDouble() * (integral_at_start_ - integral_at_end_);
    const double x = IntegralInverse(u);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, n_);
    // The first test accepts nearly all; the second costs two more powers and is exact.
    if (k - x <= accept_below_ || u >= Integral(k + 0.5) - Density(k)) {
      return static_cast<uint64_t>(k) - 1;
    }
  }
}

KeyChooser::KeyChooser(uint64_t num, Distribution distribution, double zipf_theta)
    : num_(num),
      distribution_(distribution),
      zipf_(num, zipf_theta),
      // Always the same scramble: the hot keys of one workload are those of the next.
      scramble_(num, 0x68a2c9e1) {}

}  // namespace dlsm::bench
