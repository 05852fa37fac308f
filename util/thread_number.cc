#include "util/thread_number.h"

#include <cstdlib>
#include <functional>
#include <queue>
#include <vector>

#include "port/mutex.h"

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

  void Give(uint32_t number) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    free_.push(number);
  }

 private:
  port::Mutex mutex_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_ GUARDED_BY(mutex_);
};

// Never destroyed: threads may end after static destruction began.
NumberPool& Pool() {
  static NumberPool& pool = *std::make_unique<NumberPool>().release();
  return pool;
}

struct Owned {
  Owned() : number(Pool().Take()) {}
  ~Owned() { Pool().Give(number); }
  const uint32_t number;
};

}  // namespace

uint32_t ThreadNumber::Current() {
  thread_local const Owned owned;
  return owned.number;
}

uint32_t ThreadNumber::HighWater() { return high_water.load(std::memory_order_acquire); }

}  // namespace dlsm
