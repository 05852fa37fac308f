// The first bytes of keys: how many two keys share, and eight of them as one integer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dLSM/slice.h"

namespace dlsm {

// The number of bytes that [a, a + n) and [b, b + n) have in common at their start.
inline size_t CommonPrefix(const char* a, const char* b, size_t n) {
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a + i, sizeof(x));
    std::memcpy(&y, b + i, sizeof(y));
    if (x != y) return i + static_cast<size_t>(std::countr_zero(x ^ y)) / 8;
  }
  while (i < n && a[i] == b[i]) ++i;
  return i;
}
inline size_t CommonPrefix(const Slice& a, const Slice& b) {
  return CommonPrefix(a.data(), b.data(), a.size() < b.size() ? a.size() : b.size());
}

inline constexpr size_t kDigestBytes = sizeof(uint64_t);

// The first eight bytes, the first of them the most significant, zeros where there are none. If
// Digest(a) < Digest(b) then a < b bytewise; equal digests say nothing.
inline uint64_t Digest(const Slice& bytes) {
  uint64_t digest = 0;
  if (bytes.size() >= kDigestBytes) [[likely]] {
    std::memcpy(&digest, bytes.data(), kDigestBytes);
  } else if (!bytes.empty()) {
    std::memcpy(&digest, bytes.data(), bytes.size());
  }
  return __builtin_bswap64(digest);
}

// a == b, decided by the last eight bytes where they differ: neighbours in an order have most of
// their first bytes in common.
inline bool SameBytes(const Slice& a, const Slice& b) {
  if (a.size() != b.size()) return false;
  if (a.size() < sizeof(uint64_t)) return a == b;
  uint64_t x;
  uint64_t y;
  std::memcpy(&x, a.data() + a.size() - sizeof(x), sizeof(x));
  std::memcpy(&y, b.data() + b.size() - sizeof(y), sizeof(y));
  return x == y && std::memcmp(a.data(), b.data(), a.size() - sizeof(x)) == 0;
}

// How many of `count` ascending digests are below `digest`.
inline size_t CountBelow(const uint64_t* digests, size_t count, uint64_t digest) {
  // Without a branch that depends on a comparison: which way to go is a coin toss.
  size_t below = 0;
  while (count > 1) {
    const size_t half = count / 2;
    below += half & -static_cast<size_t>(digests[below + half - 1] < digest);
    count -= half;
  }
  return below + (count == 1 && digests[below] < digest ? 1 : 0);
}

// What is left of `bytes` after `count` of them, if there are that many.
inline Slice After(const Slice& bytes, size_t count) {
  return bytes.size() <= count ? Slice() : Slice(bytes.data() + count, bytes.size() - count);
}

}  // namespace dlsm
