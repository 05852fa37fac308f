// CRC32C (Castagnoli), the checksum of every record, index, filter, frame and message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dLSM/slice.h"

namespace dlsm {

// The checksum of A|B, if `crc` is the checksum of A and [data, data + bytes) is B.
uint32_t Crc32cExtend(uint32_t crc, const char* data, size_t bytes);

inline uint32_t Crc32c(const char* data, size_t bytes) { return Crc32cExtend(0, data, bytes); }
inline uint32_t Crc32c(const Slice& bytes) { return Crc32c(bytes.data(), bytes.size()); }

}  // namespace dlsm
