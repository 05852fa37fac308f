// Wakes all who wait for it, with one system call however many they are, and none if nobody does.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "port/scheduler.h"

namespace dlsm::port {

// Who waits for a condition listens, looks at the condition, waits, and begins again. Who makes it
// true rings afterwards: none of them sleeps through that. Thread-safe.
class Bell {
 public:
  Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  uint32_t Listen() const { return rings_.load(std::memory_order_acquire); }

  // Until it has rung since Listen() returned `heard`, or for no reason at all.
  void Wait(uint32_t heard) {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]] {
      if (Listen() == heard) static_cast<void>(scheduler->Await(this, Scheduler::TimePoint::max()));
      return;
    }
    // Sequentially consistent, as the two in Ring(): either that one sees this sleeper, or the
    // kernel, which looks at the word before the thread sleeps, sees that it has rung.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    // Whatever it returns, the caller looks.
    static_cast<void>(::syscall(SYS_futex, Word(), FUTEX_WAIT_PRIVATE, heard, nullptr, nullptr, 0));
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  // What the caller did before is seen by all whom this wakes.
  void Ring() {
    rings_.fetch_add(1, std::memory_order_seq_cst);
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return scheduler->Signal(this, /*all=*/true);
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    static_cast<void>(
        ::syscall(SYS_futex, Word(), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0));
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
                std::atomic<uint32_t>::is_always_lock_free);
  uint32_t* Word() { return reinterpret_cast<uint32_t*>(&rings_); }

  std::atomic<uint32_t> rings_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace dlsm::port
