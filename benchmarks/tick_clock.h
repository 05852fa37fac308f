// A clock cheap enough to read around every operation: the processor's time stamp counter where it
// runs at a constant rate (about 8 ns a reading), std::chrono::steady_clock elsewhere (about 25
// ns). Thread-safe after construction.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace dlsm::bench {

class TickClock {
 public:
  // Calibrates against steady_clock, which takes 50 ms.
  TickClock();

  uint64_t Now() const {
#if defined(__x86_64__)
    if (uses_counter_) [[likely]]
      return __rdtsc();
#endif
    return SteadyNanoseconds();
  }
  double ToMicroseconds(double ticks) const { return ticks * nanoseconds_per_tick_ * 1e-3; }
  uint64_t FromSeconds(double seconds) const {
    return static_cast<uint64_t>(seconds * 1e9 / nanoseconds_per_tick_);
  }

 private:
  static uint64_t SteadyNanoseconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
  }

  bool uses_counter_ = false;
  double nanoseconds_per_tick_ = 1;
};

}  // namespace dlsm::bench
