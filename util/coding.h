// Fixed-width little-endian and variable-length integers, and length-prefixed strings.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "dLSM/slice.h"

namespace dlsm {

static_assert(std::endian::native == std::endian::little,
              "formats are little-endian, and so is every supported machine");

inline void EncodeFixed32(char* to, uint32_t value) { std::memcpy(to, &value, sizeof(value)); }
inline void EncodeFixed64(char* to, uint64_t value) { std::memcpy(to, &value, sizeof(value)); }
inline uint32_t DecodeFixed32(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline uint64_t DecodeFixed64(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline constexpr size_t kVarint32BytesMax = 5;
inline constexpr size_t kVarint64BytesMax = 10;

// Return the end of what was written.
char* EncodeVarint32Slow(char* to, uint32_t value);
char* EncodeVarint64(char* to, uint64_t value);
inline char* EncodeVarint32(char* to, uint32_t value) {
  if (value < 0x80) [[likely]] {
    *to = static_cast<char>(value);
    return to + 1;
  }
  if (value < 0x4000) [[likely]] {
    to[0] = static_cast<char>(value | 0x80);
    to[1] = static_cast<char>(value >> 7);
    return to + 2;
  }
  return EncodeVarint32Slow(to, value);
}
inline size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// Return the end of what was read, or nullptr if [from, limit) does not start with a valid integer.
const char* DecodeVarint32Slow(const char* from, const char* limit, uint32_t* value);
const char* DecodeVarint64(const char* from, const char* limit, uint64_t* value);
inline const char* DecodeVarint32(const char* from, const char* limit, uint32_t* value) {
  if (from < limit && static_cast<unsigned char>(*from) < 0x80) [[likely]] {
    *value = static_cast<unsigned char>(*from);
    return from + 1;
  }
  if (limit - from >= 2 && static_cast<unsigned char>(from[1]) < 0x80) [[likely]] {
    *value = (static_cast<unsigned char>(from[0]) & 0x7Fu) |
             static_cast<uint32_t>(static_cast<unsigned char>(from[1])) << 7;
    return from + 2;
  }
  return DecodeVarint32Slow(from, limit, value);
}

inline void PutFixed32(std::string* to, uint32_t value) {
  char bytes[sizeof(value)];
  EncodeFixed32(bytes, value);
  to->append(bytes, sizeof(bytes));
}
inline void PutFixed64(std::string* to, uint64_t value) {
  char bytes[sizeof(value)];
  EncodeFixed64(bytes, value);
  to->append(bytes, sizeof(bytes));
}
void PutVarint32(std::string* to, uint32_t value);
void PutVarint64(std::string* to, uint64_t value);
void PutLengthPrefixed(std::string* to, const Slice& value);

// Take a value off the front of *from; false, with *from unspecified, if it is too short or
// malformed.
bool GetFixed8(Slice* from, uint8_t* value);
bool GetFixed32(Slice* from, uint32_t* value);
bool GetFixed64(Slice* from, uint64_t* value);
bool GetVarint32(Slice* from, uint32_t* value);
bool GetVarint64(Slice* from, uint64_t* value);
bool GetLengthPrefixed(Slice* from, Slice* value);
bool GetLengthPrefixed(Slice* from, std::string* value);  // A copy.

}  // namespace dlsm
