// A ring of entries, the oldest first: one thread at a time changes it, any number read meanwhile.
//
//   | table, bytes: one word | offset: one word | bytes, filled up to words |   back to back
//
// No entry goes across the ring's end: what is left there is skipped. Positions count words from
// the ring's beginning on and are never used again; the entry at a position lies at its remainder
// by the capacity, until the tail has passed it.
//
// Readers take no lock. They copy first, and ask then whether the tail has passed: if it has not,
// nothing can have been written there since. For that every word of the ring is an atomic, and the
// tail moves before anything is written where it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "util/hash.h"

namespace dlsm {

// What an entry is found by: where bytes lie in a table that never changes.
struct EntryKey {
  static constexpr uint64_t kBytesMax = (uint64_t{1} << 24) - 1;

  uint64_t table = 0;  // From 1 on; 40 bits.
  uint64_t offset = 0;
  uint64_t bytes = 0;  // No more than kBytesMax.

  // No two entries of one table begin at the same place.
  uint64_t Hash() const {
    const uint64_t place[] = {table, offset};
    return Hash64(Slice(reinterpret_cast<const char*>(place), sizeof(place)));
  }
};

// Where entries are copied to. One thread at a time.
class EntryBuffer {
 public:
  // Room for so many words, in place of what was there; null if the process cannot have it.
  uint64_t* Reserve(uint64_t words) {
    return words <= count_ || Grow(words) ? words_.get() : nullptr;
  }
  // What was copied last.
  const char* data() const { return reinterpret_cast<const char*>(words_.get()); }

 private:
  bool Grow(uint64_t words);

  uint64_t count_ = 0;
  std::unique_ptr<uint64_t[]> words_;
};

class EntryRing {
 public:
  // `words`, of which there are `capacity`, outlive the ring.
  EntryRing(uint64_t* words, uint64_t capacity)
      : words_(words), capacity_(capacity), head_(capacity), tail_(capacity) {}
  EntryRing(const EntryRing&) = delete;
  EntryRing& operator=(const EntryRing&) = delete;

  static uint64_t WordsOf(uint64_t bytes) { return (bytes + kWordBytes - 1) / kWordBytes; }

  // Any thread. Copies the entry's bytes, filled up to words, if it is still there, and this one,
  // and there is room for them.
  bool Read(uint64_t position, const EntryKey& key, EntryBuffer* buffer) const {
    const uint64_t at = position % capacity_;
    const uint64_t words = WordsOf(key.bytes);
    // Nothing that is read here is believed before the tail has been asked.
    if (at + kHeaderWords + words > capacity_) return false;
    if (Load(at) != SizeWord(key) || Load(at + 1) != key.offset) return false;
    uint64_t* const to = buffer->Reserve(words);
    if (to == nullptr) return false;
    CopyWords(at + kHeaderWords, words, to);
    // Comes after the loads above, which acquire. Whoever wrote one of the words that were found
    // has moved the tail before: the release of that word makes it visible here.
    return tail_.load(std::memory_order_relaxed) <= position;
  }

  // -------- By one thread at a time.

  bool HasRoomFor(uint64_t bytes) const {
    const uint64_t words = kHeaderWords + WordsOf(bytes);
    return head_ + Skipped(words) + words - Tail() <= capacity_;
  }
  // There is room. Returns the entry's position.
  uint64_t Append(const EntryKey& key, const char* bytes);
  // The same of the entry at a position of another ring, or of this ring's oldest one, which has
  // just been dropped.
  uint64_t AppendFrom(const EntryRing& from, uint64_t position, const EntryKey& key);

  bool empty() const { return Tail() == head_; }
  // Not of an empty ring.
  uint64_t Oldest(EntryKey* key);
  void DropOldest();
  // Whether this is the entry at a position that has not been dropped.
  bool IsAt(uint64_t position, const EntryKey& key) const {
    const uint64_t at = position % capacity_;
    return Load(at) == SizeWord(key) && Load(at + 1) == key.offset;
  }
  uint64_t UsedBytes() const { return (head_ - Tail()) * kWordBytes; }

 private:
  static constexpr uint64_t kWordBytes = sizeof(uint64_t);
  static constexpr uint64_t kHeaderWords = 2;
  static constexpr int kSizeBits = 24;

  static uint64_t SizeWord(const EntryKey& key) { return key.table << kSizeBits | key.bytes; }

  // Acquire and release cost nothing here beyond the move itself on x86, see Read().
  uint64_t Load(uint64_t at) const {
    return std::atomic_ref<uint64_t>(words_[at]).load(std::memory_order_acquire);
  }
  void Store(uint64_t at, uint64_t word) {
    std::atomic_ref<uint64_t>(words_[at]).store(word, std::memory_order_release);
  }
  // Four at a time: the compiler does not unroll loops over atomics.
  void CopyWords(uint64_t from, uint64_t count, uint64_t* to) const {
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      to[i] = Load(from + i);
      to[i + 1] = Load(from + i + 1);
      to[i + 2] = Load(from + i + 2);
      to[i + 3] = Load(from + i + 3);
    }
    for (; i < count; ++i) to[i] = Load(from + i);
  }
  uint64_t AppendHeader(const EntryKey& key);
  uint64_t Tail() const { return tail_.load(std::memory_order_relaxed); }
  void MoveTail(uint64_t words) { tail_.store(Tail() + words, std::memory_order_relaxed); }
  // What is left at the end of the ring, if `words` do not fit there.
  uint64_t Skipped(uint64_t words) const {
    const uint64_t left = capacity_ - head_ % capacity_;
    return words <= left ? 0 : left;
  }

  uint64_t* const words_;
  const uint64_t capacity_;

  uint64_t head_;  // Of the thread that changes it.
  // Pairs with Read(): published by the release of whatever is written behind it.
  std::atomic<uint64_t> tail_;
};

}  // namespace dlsm
