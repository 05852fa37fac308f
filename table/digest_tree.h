// A search among ascending digests that do not change: a B-tree without pointers.
//
//   level 2   | 0 64 128 ...                                |    the first digest of each block
//   level 1   | 0 8 .. 56 | 64 72 .. 120 | 128 ..           |    of the level below
//   level 0   | 0 1 2 .. 7 | 8 9 .. 15 | 16 ..              |    all digests
//
// A block is a cache line, and a search touches one on each level, where a binary search touches
// twice as many. Within a block all digests are compared: no load waits for a comparison, and none
// is guessed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "port/cpu.h"

namespace dlsm {

// Thread-safe once built.
class DigestTree {
 public:
  // Of the `size` digests digest_at(0), digest_at(1), ..., which ascend.
  template <typename DigestAt>
  void Build(size_t size, DigestAt digest_at) {
    size_ = size;
    levels_ = 0;
    size_t blocks = 0;
    for (size_t count = size; count > 0; count = count > kDigests ? BlocksFor(count) : 0) {
      begins_[levels_++] = static_cast<uint32_t>(blocks);
      blocks += BlocksFor(count);
    }
    blocks_.assign(blocks, Block());
    blocks_.shrink_to_fit();
    for (size_t i = 0; i < size; ++i) At(0, i) = digest_at(i);
    for (size_t level = 1; level < levels_; ++level) {
      const size_t below = begins_[level] - begins_[level - 1];
      for (size_t i = 0; i < below; ++i) At(level, i) = At(level - 1, i * kDigests);
    }
  }
  void Clear() { *this = DigestTree(); }

  size_t size() const { return size_; }
  uint64_t operator[](size_t i) const { return blocks_[i / kDigests].digests[i % kDigests]; }
  size_t resident_bytes() const { return blocks_.capacity() * sizeof(Block); }

  // How many of them are below `digest`.
  size_t CountBelow(uint64_t digest) const {
    size_t below = 0;
    for (size_t level = levels_; level > 0; --level) {
      // The last block of which the first digest is below `digest`; on top there is but one.
      const size_t block = below == 0 ? 0 : below - 1;
      below = block * kDigests + blocks_[begins_[level - 1] + block].CountBelow(digest);
    }
    return below;
  }

 private:
  static constexpr size_t kDigests = port::kCacheLineBytes / sizeof(uint64_t);
  static constexpr size_t kLevelsMax = 11;  // Enough for 2^32 digests.

  struct alignas(port::kCacheLineBytes) Block {
    Block() { digests.fill(UINT64_MAX); }  // No digest is above it, so it is never counted.

    size_t CountBelow(uint64_t digest) const {
      size_t below = 0;
      for (const uint64_t each : digests) below += each < digest ? 1 : 0;
      return below;
    }

    std::array<uint64_t, kDigests> digests;
  };

  static size_t BlocksFor(size_t digests) { return (digests + kDigests - 1) / kDigests; }
  uint64_t& At(size_t level, size_t i) {
    return blocks_[begins_[level] + i / kDigests].digests[i % kDigests];
  }

  size_t size_ = 0;
  size_t levels_ = 0;
  std::array<uint32_t, kLevelsMax> begins_{};  // The levels' first blocks.
  std::vector<Block> blocks_;
};

}  // namespace dlsm
