// Places that ask for memory, where a test may have it that there is none. Nobody does otherwise:
// then such a place costs one load and a branch, where a lock or a shared counter costs more.
#pragma once

#include <atomic>

namespace dlsm::port {

// Called at every place by the thread that is there, under whatever locks it has. May throw
// std::bad_alloc, as the allocation that follows may. Null: nothing is called. `place`: as below.
using AllocationHook = void (*)(const char* place);

inline std::atomic<AllocationHook>& AllocationHookOfProcess() {
  static std::atomic<AllocationHook> hook{nullptr};
  return hook;
}

// `place`: a literal, where a test may want memory to end at this one place; null: at whichever.
inline void AllocationPoint(const char* place = nullptr) {
  // Relaxed: what the hook needs was there before it was set, and it publishes nothing.
  const AllocationHook hook = AllocationHookOfProcess().load(std::memory_order_relaxed);
  if (hook != nullptr) [[unlikely]]
    hook(place);
}

}  // namespace dlsm::port
