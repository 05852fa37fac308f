// What the code needs to know of the processor it runs on.
#pragma once

#include <cstddef>

#include "port/scheduler.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace dlsm::port {

// Two threads that write within one such unit slow each other down.
inline constexpr size_t kCacheLineBytes = 64;

// In a loop that waits for what another thread does.
inline void CpuRelax() {
  InterleavingPoint();
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

inline void PrefetchRead(const void* address) { __builtin_prefetch(address, 0, 3); }

}  // namespace dlsm::port
