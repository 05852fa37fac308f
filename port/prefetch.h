// Asking for memory that is about to be read as a whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "port/cpu.h"

namespace dlsm::port {

// So its cache lines come side by side, not one after the other; no more than `most` of its bytes,
// for the processor itself goes on from there.
inline void PrefetchBytes(const char* data, size_t bytes, size_t most = 1024) {
  const size_t into_line = reinterpret_cast<uintptr_t>(data) % kCacheLineBytes;
  const size_t size = std::min(bytes, most) + into_line;
  const char* const line = data - into_line;
  for (size_t at = 0; at < size; at += kCacheLineBytes) PrefetchRead(line + at);
}

}  // namespace dlsm::port
