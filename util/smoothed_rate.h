// How fast something has gone lately: bytes by the time they took, older ones counting less.
#pragma once

#include <chrono>
#include <cstdint>

#include "port/clock.h"

namespace dlsm {

// Not thread-safe.
class SmoothedRate {
 public:
  using Clock = port::Clock;

  // `bytes` took this long, until `now`.
  void Add(uint64_t bytes, std::chrono::nanoseconds took, Clock::time_point now = Clock::now());

  // 0 while less than a millisecond has been seen, and when all of it is a minute old: then it says
  // nothing of the present.
  uint64_t BytesPerSecond(Clock::time_point now = Clock::now()) const;

 private:
  double bytes_ = 0;
  double seconds_ = 0;
  Clock::time_point last_;
};

}  // namespace dlsm
