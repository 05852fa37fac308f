// Callers that flush and merge themselves what they wait for.
//
// A comparator or filter policy of the application's own may take a lock that the caller of
// Flush(), say, holds: the lock of an interpreter. If the caller waited for a thread that needs the
// comparator, neither would get on. So where flushes and merges call the application's code, the
// caller's own thread does them. Meanwhile the threads of BackgroundWorkers begin nothing that may
// call that code, for they would keep mutexes that the caller needs. What they have begun before
// they finish.
#pragma once

#include <atomic>

#include "db/background/work_signal.h"

namespace dlsm {

// Of a handle, for all its shards. Thread-safe.
class CallerWork {
 public:
  // `own_code`: flushes and merges call code of the application. `signal` outlives this.
  CallerWork(bool own_code, WorkSignal* signal) : own_code_(own_code), signal_(signal) {}

  bool own_code() const { return own_code_; }
  // Whether threads leave flushes, or merges, to callers just now.
  bool flushing() const { return flushing_.load(std::memory_order_acquire) > 0; }
  bool merging() const { return flushing() || merging_.load(std::memory_order_acquire) > 0; }

  // As long as it lives, its maker does the work that it waits for.
  class Turn {
   public:
    enum class Kind { kFlush, kMerge };

    Turn(CallerWork* callers, Kind kind) : callers_(callers), kind_(kind) { Count(1); }
    ~Turn() {
      Count(-1);
      // Threads that have looked for work in vain look again.
      if (callers_->own_code_) callers_->signal_->Notify(WorkSignal::Work::kAny);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    void Count(int change) {
      if (!callers_->own_code_) return;
      std::atomic<int>& count = kind_ == Kind::kFlush ? callers_->flushing_ : callers_->merging_;
      count.fetch_add(change, std::memory_order_acq_rel);
    }

    CallerWork* const callers_;
    const Kind kind_;
  };

 private:
  const bool own_code_;
  WorkSignal* const signal_;
  std::atomic<int> flushing_{0};
  std::atomic<int> merging_{0};
};

}  // namespace dlsm
