#include "table/short_keys.h"

#include <algorithm>

#include "dLSM/comparator.h"
#include "table/key_prefix.h"

namespace dlsm {
namespace {

// How many bytes tell `key` from `other`, the first one that differs included.
size_t BytesThatTell(const Slice& key, const Slice* other) {
  return other == nullptr ? 0 : CommonPrefix(key, *other) + 1;
}

// In the order of bytes, a key is behind all of its prefixes.
std::string Cut(const Slice& key, size_t bytes, const Slice* other) {
  bytes = std::max(bytes, BytesThatTell(key, other));
  return std::string(key.data(), std::min(key.size(), bytes));
}

unsigned char ByteAt(const Slice& key, size_t i) { return static_cast<unsigned char>(key[i]); }

// Which byte of `key` is raised to get a key behind it, but before `other` where that is behind it;
// key.size(): none. Mostly the last one of `bytes`; another one where that is 0xff.
size_t RaisedAt(const Slice& key, size_t bytes, const Slice* other) {
  // Behind what tells them apart any byte will do.
  const size_t told = BytesThatTell(key, other);
  const size_t wanted = std::max(bytes - 1, told);
  size_t at = wanted;
  while (at < key.size() && ByteAt(key, at) == 0xff) ++at;
  if (at < key.size()) return at;
  for (at = std::min(wanted, key.size()); at > told; --at) {
    if (ByteAt(key, at - 1) != 0xff) return at - 1;
  }
  // What is raised to a part of `other` is before it still.
  if (told == 0 || told > std::min(key.size(), other->size())) return key.size();
  const int raised = ByteAt(key, told - 1) + 1;
  const int bound = ByteAt(*other, told - 1);
  return raised < bound || (raised == bound && told < other->size()) ? told - 1 : key.size();
}

// In the order of bytes, a key is before each of its prefixes of which the last byte is raised.
std::string Raised(const Slice& key, size_t bytes, const Slice* other) {
  const size_t at = RaisedAt(key, bytes, other);
  if (at + 1 >= key.size()) return key.ToString();
  std::string raised(key.data(), at + 1);
  raised[at] = static_cast<char>(ByteAt(key, at) + 1);
  return raised;
}

}  // namespace

bool OrdersByBytes(const InternalKeyComparator& comparator) {
  return comparator.bytewise() || comparator.user_comparator() == ReverseBytewiseComparator();
}

std::string ShortKeyBefore(const InternalKeyComparator& comparator, const Slice& key, size_t bytes,
                           const Slice* other) {
  if (!OrdersByBytes(comparator)) return key.ToString();
  return comparator.bytewise() ? Cut(key, bytes, other) : Raised(key, bytes, other);
}

std::string ShortKeyBehind(const InternalKeyComparator& comparator, const Slice& key, size_t bytes,
                           const Slice* other) {
  if (!OrdersByBytes(comparator)) return key.ToString();
  return comparator.bytewise() ? Raised(key, bytes, other) : Cut(key, bytes, other);
}

}  // namespace dlsm
