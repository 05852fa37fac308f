#include "util/entry_ring.h"

#include <cassert>
#include <cstring>

namespace dlsm {

uint64_t EntryRing::Append(const EntryKey& key, const char* bytes) {
  assert(key.table != 0 && key.bytes <= EntryKey::kBytesMax && HasRoomFor(key.bytes));
  const uint64_t words = WordsOf(key.bytes);
  if (const uint64_t skipped = Skipped(kHeaderWords + words); skipped > 0) {
    Store(head_ % capacity_, 0);  // No entry's: its table would be 0.
    head_ += skipped;
  }
  const uint64_t position = head_;
  uint64_t at = position % capacity_;
  Store(at++, SizeWord(key));
  Store(at++, key.offset);
  const uint64_t whole = key.bytes / kWordBytes;
  for (uint64_t i = 0; i < whole; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
    Store(at++, word);
  }
  if (whole < words) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + whole * kWordBytes, key.bytes - whole * kWordBytes);
    Store(at, word);
  }
  head_ += kHeaderWords + words;
  return position;
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

void EntryRing::CopyOldest(uint64_t* to) {
  EntryKey key;
  const uint64_t at = Oldest(&key) % capacity_ + kHeaderWords;
  CopyWords(at, WordsOf(key.bytes), to);
}

void EntryRing::DropOldest() {
  EntryKey key;
  Oldest(&key);
  MoveTail(kHeaderWords + WordsOf(key.bytes));
}

}  // namespace dlsm
