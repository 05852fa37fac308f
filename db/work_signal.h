// How the threads of a handle learn that there may be work: a count that only grows, so that none
// of them misses what happens between its last look and its sleep.
#pragma once

#include <chrono>
#include <cstdint>

#include "port/clock.h"
#include "port/mutex.h"

namespace dlsm {

// Thread-safe.
class WorkSignal {
 public:
  using Clock = port::Clock;

  uint64_t count() const LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    return count_;
  }
  void Notify() LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    ++count_;
    changed_.SignalAll();
  }
  // Returns when the count is no longer `seen`, or at `until`.
  void Wait(uint64_t seen, Clock::time_point until) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    while (count_ == seen && Clock::now() < until) {
      if (until == Clock::time_point::max()) {
        changed_.Wait();
      } else {
        changed_.WaitUntil(until);
      }
    }
  }

 private:
  mutable port::Mutex mutex_;  // Taken last.
  port::CondVar changed_{mutex_};
  uint64_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
