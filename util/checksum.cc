#include "util/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace dlsm {

uint32_t Crc32cExtend(uint32_t crc, const char* data, size_t bytes) {
  // The library's length is an int, and it leaves the inversions to its caller.
  constexpr size_t kChunkMax = size_t{1} << 30;
  // It reads only; its signature lacks the const.
  auto* at = reinterpret_cast<unsigned char*>(const_cast<char*>(data));
  uint32_t state = ~crc;
  do {
    const size_t chunk = std::min(bytes, kChunkMax);
    state = crc32_iscsi(at, static_cast<int>(chunk), state);
    at += chunk;
    bytes -= chunk;
  } while (bytes != 0);
  return ~state;
}

}  // namespace dlsm
