// Short stand-ins for long keys, where what matters is between which others a key lies.
#pragma once

#include <cstddef>
#include <string>

#include "dLSM/slice.h"
#include "table/internal_key.h"

namespace dlsm {

// Up to so many bytes a key is short enough to stand for itself.
inline constexpr size_t kShortKeyBytes = 128;

// Whether the order is one of the built-in two, by bytes upwards or downwards: another may compare
// keys in any way, so that only a key can stand for itself.
bool OrdersByBytes(const InternalKeyComparator& comparator);

// A user key that is `key` or before it, no longer than that, and on the same side of `other` as
// `key` is; null: there is no other. It has `bytes` at most, unless it takes more to tell it from
// `other`, or the key goes on with bytes of 0xff there. In an order that is not by bytes it is
// `key`.
std::string ShortKeyBefore(const InternalKeyComparator& comparator, const Slice& key, size_t bytes,
                           const Slice* other);
// The same for `key` or behind it.
std::string ShortKeyBehind(const InternalKeyComparator& comparator, const Slice& key, size_t bytes,
                           const Slice* other);

}  // namespace dlsm
