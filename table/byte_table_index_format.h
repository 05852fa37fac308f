// Constants that builder and reader of the index share; the layout is in byte_table_index.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "table/short_keys.h"

namespace dlsm::byte_table_index {

inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kWholeKeys = 1;
inline constexpr size_t kGroupBytes = 32;  // In the array of groups.
// A multiple of a group's bytes: no group straddles two cache lines.
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kAlignment = 64;
inline constexpr size_t kCrcBytes = 4;

// Of the table's first key, unless it takes more to tell it from the second one: what is before all
// of the table is seen from so many bytes.
inline constexpr size_t kFirstSeparatorBytes = kShortKeyBytes;

// Beside the offset of a group's entries, which is even.
inline constexpr uint32_t kUniform = 1;

inline constexpr uint8_t kInVarint = 7;  // Of the three-bit fields.
inline constexpr int kAddShift = 3;
inline constexpr uint8_t kLength = 0x40;
inline constexpr uint8_t kSame = 0x80;

// What an index keeps of a key's hash: bits that say little of the line in a filter.
inline uint8_t Fingerprint(uint64_t hash) { return static_cast<uint8_t>(hash >> 16); }

inline constexpr uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace dlsm::byte_table_index
