// For how long this process has stood still: stopped (SIGSTOP, a debugger), or paged out. What
// others sent meanwhile lies unread, so who reckons how long nothing was heard of them counts none
// of it.
#pragma once

#include <chrono>
#include <utility>

#include "port/clock.h"

namespace dlsm {

// Not thread-safe.
class StandstillWatch {
 public:
  using Clock = port::Clock;

  // Somebody looks several times a second, so what is longer between two looks is no delay of one.
  static constexpr auto kLeast = std::chrono::seconds(1);

  explicit StandstillWatch(Clock::time_point now = Clock::now()) : looked_at_(now) {}

  // Returns for how long the process has stood still since the last look; 0 if it has run.
  std::chrono::nanoseconds Look(Clock::time_point now = Clock::now()) {
    const std::chrono::nanoseconds gap = now - std::exchange(looked_at_, now);
    return gap < kLeast ? std::chrono::nanoseconds::zero() : gap;
  }

 private:
  Clock::time_point looked_at_;
};

}  // namespace dlsm
