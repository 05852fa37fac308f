// Which keys a memtable may hold, so that a lookup of another key is spared the way down its tree:
// a Bloom filter that is added to as the memtable is, by any number of threads (register-blocked:
// the bits of a key are in one word; Putze, Sanders, Singler 2007).
//
// Who must see an entry because its write has ended, or because its sequence number is settled,
// sees its bits too: they are set before either.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace dlsm {

class MemtableFilter {
 public:
  // For entries of `memtable_bytes` together; 0: every key may be there.
  explicit MemtableFilter(size_t memtable_bytes)
      : count_(memtable_bytes == 0 ? 0 : std::min(memtable_bytes / kBytesPerWord + 1, kWordsMax)),
        words_(count_ == 0 ? nullptr : std::make_unique<std::atomic<uint64_t>[]>(count_)) {}

  bool active() const { return count_ > 0; }
  size_t words() const { return count_; }

  // Both if active; `hash` is Hash64() of the user key.
  void Add(uint64_t hash) {
    std::atomic<uint64_t>& word = words_[IndexOf(hash)];
    const uint64_t bits = BitsOf(hash);
    if ((word.load(std::memory_order_relaxed) & bits) != bits) {
      word.fetch_or(bits, std::memory_order_relaxed);
    }
  }
  bool MayContain(uint64_t hash) const {
    const uint64_t bits = BitsOf(hash);
    return (words_[IndexOf(hash)].load(std::memory_order_relaxed) & bits) == bits;
  }

 private:
  // 256 KB for a memtable of 64 MB: in the processor's second cache, and 14 bits for each of its
  // entries where these are 400 bytes. Very small ones fill it until it is of no use.
  static constexpr size_t kBytesPerWord = 2048;
  // Who switches memtables clears the next one's.
  static constexpr size_t kWordsMax = size_t{1} << 20;

  // By the upper bits; those in the word are chosen by the lower ones.
  size_t IndexOf(uint64_t hash) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<size_t>((static_cast<Wide>(hash) * count_) >> 64);
  }
  static uint64_t BitsOf(uint64_t hash) {
    return uint64_t{1} << (hash & 63) | uint64_t{1} << (hash >> 6 & 63) |
           uint64_t{1} << (hash >> 12 & 63) | uint64_t{1} << (hash >> 18 & 63);
  }

  const size_t count_;
  const std::unique_ptr<std::atomic<uint64_t>[]> words_;
};

}  // namespace dlsm
