// How the threads of a handle's background work learn that there may be some.
#pragma once

#include <cstdint>

#include "port/mutex.h"
#include "util/thread_pool.h"

namespace dlsm {

// Thread-safe.
class WorkSignal {
 public:
  enum class Work : uint8_t { kFlushes, kMerges, kAny };

  // These tasks look for such work from now on, until Detach(). What was told before is not told
  // again.
  void Attach(ThreadPool::Task* flushes, ThreadPool::Task* merges) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    flushes_ = flushes;
    merges_ = merges;
  }
  void Detach() LOCKS_EXCLUDED(mutex_) { Attach(nullptr, nullptr); }

  void Notify(Work work) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    ++count_;
    if (flushes_ != nullptr && work != Work::kMerges) flushes_->Wake();
    if (merges_ != nullptr && work != Work::kFlushes) merges_->Wake();
  }

  // How often it was told so far.
  uint64_t count() const LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    return count_;
  }

 private:
  mutable port::Mutex mutex_;  // Taken last, but for the pool's.
  ThreadPool::Task* flushes_ GUARDED_BY(mutex_) = nullptr;
  ThreadPool::Task* merges_ GUARDED_BY(mutex_) = nullptr;
  uint64_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
