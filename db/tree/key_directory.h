// Searches sorted user keys in a dense array of their digests, so that a search costs a cache miss
// or two where following each key to its bytes would cost one for each step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "table/digest_tree.h"
#include "table/internal_key.h"
#include "table/key_prefix.h"

namespace dlsm {

// Of keys that the caller keeps, ascending: key_at(i) gives the i-th of `size`. Immutable after
// Build().
class KeyDirectory {
 public:
  template <typename KeyAt>
  void Build(const InternalKeyComparator& comparator, size_t size, KeyAt key_at) {
    digests_.Clear();
    if (!comparator.bytewise() || size == 0) return;
    // Of sorted keys, the first and the last have the least in common.
    prefix_bytes_ = CommonPrefix(key_at(0), key_at(size - 1));
    digests_.Build(size, [&](size_t i) { return Digest(After(key_at(i), prefix_bytes_)); });
  }

  size_t size() const { return digests_.size(); }
  void Clear() { digests_.Clear(); }

  // How many of the keys are at or before `key`. Without Build() it takes longer.
  template <typename KeyAt>
  size_t CountUpTo(const InternalKeyComparator& comparator, const Slice& key, size_t size,
                   KeyAt key_at) const {
    size_t begin = 0;
    size_t end = size;
    if (digests_.size() == size && size > 0) {
      const int order =
          std::memcmp(key.data(), key_at(0).data(), std::min(key.size(), prefix_bytes_));
      if (order < 0 || (order == 0 && key.size() < prefix_bytes_)) return 0;
      if (order > 0) return size;
      const uint64_t digest = Digest(After(key, prefix_bytes_));
      begin = digests_.CountBelow(digest);
      end = begin;
      while (end < size && digests_[end] == digest) ++end;
    }
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      if (comparator.CompareUserKeys(key_at(middle), key) <= 0) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }

 private:
  size_t prefix_bytes_ = 0;  // That all keys share.
  DigestTree digests_;       // Of what follows it; none if the order is not bytewise.
};

}  // namespace dlsm
