// The hash of keys: XXH3, 64 bits. Part of the formats (filters, indexes), so it never changes.
#pragma once

#define XXH_INLINE_ALL  // Keys are short: a call would cost as much as the hash.
#include <xxhash.h>

#include <cstdint>

#include "dLSM/slice.h"

namespace dlsm {

inline uint64_t Hash64(const Slice& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace dlsm
