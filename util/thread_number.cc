#include "util/thread_number.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <queue>
#include <vector>

#include "port/allocation_point.h"
#include "port/mutex.h"
#include "port/per_process.h"

namespace dlsm {
namespace {

std::atomic<uint32_t> high_water{0};

class NumberPool {
 public:
  uint32_t Take() LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    if (!free_.empty()) {
      const uint32_t number = free_.top();
      free_.pop();
      return number;
    }
    // 65,536 threads at once are beyond what the systems this runs on allow a process.
    const uint32_t number = high_water.load(std::memory_order_relaxed);
    if (number >= ThreadNumber::kMax) std::abort();
    high_water.store(number + 1, std::memory_order_release);
    return number;
  }

  // At the end of a thread, where nobody could be told: a number that there is no memory to keep is
  // not given out again.
  void Give(uint32_t number) noexcept LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    try {
      port::AllocationPoint("thread number");
      free_.push(number);
    } catch (const std::bad_alloc&) {
      // See above.
    }
  }

 private:
  port::Mutex mutex_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_ GUARDED_BY(mutex_);
};

// Never destroyed: threads may end after static destruction began. The numbers that a child's
// parent has given out are not given out again: the thread that called fork() keeps its own.
NumberPool& Pool() {
  static constinit port::PerProcess<NumberPool> pool;
  return pool.Here();
}

}  // namespace

// A key's destructor runs after those of all objects that the thread keeps for itself, which may
// still use a database; and never for the main thread, which static objects outlive.
class ThreadNumber::GivesBack {
 public:
  GivesBack() : has_key_(pthread_key_create(&key_, &Run) == 0) {}

  // Without a key (a process has a thousand) numbers are not given back.
  void AtEndOfThread(uint32_t number) const {
    if (has_key_) pthread_setspecific(key_, reinterpret_cast<void*>(uintptr_t{number} + 1));
  }

 private:
  static void Run(void* value) {
    mine_ = kNone;  // Who asks once more gets a number once more, and this is called again.
    Pool().Give(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(value) - 1));
  }

  pthread_key_t key_{};
  const bool has_key_;
};

uint32_t ThreadNumber::Take() {
  static const GivesBack gives_back;
  const uint32_t number = Pool().Take();
  gives_back.AtEndOfThread(number);
  mine_ = number;
  return number;
}

uint32_t ThreadNumber::HighWater() { return high_water.load(std::memory_order_acquire); }

}  // namespace dlsm
