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

// Not by the compiler's builtin where that can be helped: GCC 12 takes a loop that does nothing
// else for one that does nothing.
inline void PrefetchRead(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 0, 3);
#endif
}

// To be called after code of others that may have used wide vector registers and left something in
// their upper halves. On Intel's processors each SSE instruction then waits for what its register
// held before, so that reads of memory that have nothing to do with each other follow one another.
inline void ClearUpperVectorHalves() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx")) return;
  asm volatile("vzeroupper"
               :
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                 "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

}  // namespace dlsm::port
