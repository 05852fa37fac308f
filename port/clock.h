// Time that only grows, and sleeping. In place of std::chrono::steady_clock, whose time points it
// has, so that a simulation can say what time it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "port/scheduler.h"

namespace dlsm::port {

struct Clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return scheduler->Now();
    return std::chrono::steady_clock::now();
  }
};

inline uint64_t MicrosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

inline void SleepUntil(Clock::time_point until) {
  Scheduler* const scheduler = Scheduler::Current();
  if (scheduler != nullptr) [[unlikely]]
    return scheduler->SleepUntil(until);
  std::this_thread::sleep_until(until);
}

inline void SleepFor(std::chrono::nanoseconds duration) {
  Scheduler* const scheduler = Scheduler::Current();
  if (scheduler != nullptr) [[unlikely]]
    return scheduler->SleepUntil(scheduler->Now() + duration);
  std::this_thread::sleep_for(duration);
}

}  // namespace dlsm::port
