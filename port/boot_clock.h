// Time that goes on while the machine is suspended, which that of port::Clock does not: for leases,
// which others count meanwhile.
#pragma once

#include <cassert>
#include <chrono>
#include <ctime>

#include "port/scheduler.h"

namespace dlsm::port {

// Its time points are of a type of their own. Waits take those of port::Clock.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock, duration>;
  static constexpr bool is_steady = true;

  // Which of the system's clocks it is. Like CLOCK_MONOTONIC it is never set, and is read without a
  // system call where the kernel lets that be (vDSO), as it does on most machines.
  static constexpr clockid_t kSource = CLOCK_BOOTTIME;

  static time_point now() {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return time_point(scheduler->Now().time_since_epoch() + scheduler->Suspended());
    timespec time{};
    [[maybe_unused]] const int failed = clock_gettime(kSource, &time);
    assert(failed == 0);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace dlsm::port
