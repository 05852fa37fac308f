// Places at which the order of threads matters most, where a test may hold up whoever comes by.
// Nobody does otherwise: then such a place costs one load and a branch, off the paths of single
// reads and writes.
#pragma once

#include <atomic>

namespace dlsm::port {

using SyncPointHook = void (*)(const char* place);

// Called at every place by the thread that is there, under whatever locks it has, so it may wait
// only a moment. Null: nothing is called.
inline std::atomic<SyncPointHook>& SyncPointHookOfProcess() {
  static std::atomic<SyncPointHook> hook{nullptr};
  return hook;
}

// `place`: a literal.
inline void SyncPoint(const char* place) {
  // Relaxed: what the hook needs was there before it was set, and it publishes nothing.
  const SyncPointHook hook = SyncPointHookOfProcess().load(std::memory_order_relaxed);
  if (hook != nullptr) [[unlikely]]
    hook(place);
}

}  // namespace dlsm::port
