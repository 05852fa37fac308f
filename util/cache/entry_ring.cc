#include "util/cache/entry_ring.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "port/allocation_point.h"

namespace dlsm {

bool EntryBuffer::Grow(uint64_t words) {
  const uint64_t count = std::max(words, 2 * count_);
  try {
    port::AllocationPoint();
    words_ = std::make_unique<uint64_t[]>(count);
  } catch (const std::bad_alloc&) {
    return false;
  }
  count_ = count;
  return true;
}

// And makes room for the bytes behind it.
uint64_t EntryRing::AppendHeader(const EntryKey& key) {
  assert(key.table != 0 && key.bytes <= EntryKey::kBytesMax && HasRoomFor(key.bytes));
  const uint64_t words = kHeaderWords + WordsOf(key.bytes);
  if (const uint64_t skipped = Skipped(words); skipped > 0) {
    Store(head_ % capacity_, 0);  // No entry's: its table would be 0.
    head_ += skipped;
  }
  const uint64_t position = head_;
  Store(position % capacity_, SizeWord(key));
  Store(position % capacity_ + 1, key.offset);
  head_ += words;
  return position;
}

uint64_t EntryRing::Append(const EntryKey& key, const char* bytes) {
  const uint64_t position = AppendHeader(key);
  uint64_t at = position % capacity_ + kHeaderWords;
  for (uint64_t done = 0; done < key.bytes; done += kWordBytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + done, std::min(kWordBytes, key.bytes - done));
    Store(at++, word);
  }
  return position;
}

// Within one ring the two may overlap. Then the new place begins before the old one, and each word
// is read before it is written to.
uint64_t EntryRing::AppendFrom(const EntryRing& from, uint64_t position, const EntryKey& key) {
  const uint64_t old = position % from.capacity_ + kHeaderWords;
  const uint64_t appended = AppendHeader(key);
  const uint64_t at = appended % capacity_ + kHeaderWords;
  for (uint64_t i = 0; i < WordsOf(key.bytes); ++i) Store(at + i, from.Load(old + i));
  return appended;
}

uint64_t EntryRing::Oldest(EntryKey* key) {
  assert(!empty());
  if (const uint64_t at = Tail() % capacity_; Load(at) == 0) MoveTail(capacity_ - at);
  const uint64_t position = Tail();
  const uint64_t at = position % capacity_;
  const uint64_t size_word = Load(at);
  key->table = size_word >> kSizeBits;
  key->bytes = size_word & EntryKey::kBytesMax;
  key->offset = Load(at + 1);
  return position;
}

void EntryRing::DropOldest() {
  EntryKey key;
  Oldest(&key);
  MoveTail(kHeaderWords + WordsOf(key.bytes));
}

}  // namespace dlsm
