// Bytes that a test can tell by where they are: who got others has got somebody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dlsm {

// What the memory node has at `offset`.
inline char ByteAt(uint64_t offset) { return static_cast<char>(offset * 2654435761u >> 13); }

inline std::string BytesAt(uint64_t offset, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = ByteAt(offset + i);
  return text;
}

}  // namespace dlsm
