// Whether another process has taken over what a handle writes to. If it has any one of its shards,
// the handle as a whole may write no more: a database has one writer.
#pragma once

#include <atomic>
#include <vector>

#include "dLSM/status.h"
#include "db/background/stall_gate.h"
#include "port/mutex.h"

namespace dlsm {

// Thread-safe.
class Fence {
 public:
  // `gate` is closed for good when the fence is raised, and outlives it.
  void Join(StallGate* gate) LOCKS_EXCLUDED(mutex_);
  // `why` is IOFenced. The first one stays.
  void Raise(const Status& why) LOCKS_EXCLUDED(mutex_);

  bool raised() const { return raised_.load(std::memory_order_acquire); }
  // OK until it is raised.
  Status status() const LOCKS_EXCLUDED(mutex_);

 private:
  std::atomic<bool> raised_{false};  // Set after status_.

  mutable port::Mutex mutex_;  // Taken before those of gates.
  Status status_ GUARDED_BY(mutex_);
  std::vector<StallGate*> gates_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
