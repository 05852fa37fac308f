// The time of an open loop, and how its threads wait for the next arrival.
#pragma once

#include <cstdint>

#include "benchmarks/tick_clock.h"

namespace dlsm::bench {

// In nanoseconds since some moment before. An interface, so that a test can be the clock.
class ArrivalClock {
 public:
  virtual ~ArrivalClock() = default;

  virtual uint64_t NowNs() = 0;
  // Returns the time, which is not before `ns`; at once, if that has passed.
  virtual uint64_t WaitUntil(uint64_t ns) = 0;
};

// The real time. Thread-safe.
class TickArrivalClock : public ArrivalClock {
 public:
  explicit TickArrivalClock(const TickClock& ticks) : ticks_(ticks), origin_(ticks.Now()) {}

  uint64_t NowNs() override {
    const double elapsed = static_cast<double>(ticks_.Now() - origin_);
    return static_cast<uint64_t>(ticks_.ToMicroseconds(elapsed) * 1e3);
  }
  // Sleeps while the arrival is far, and gives up the processor up to the last microseconds: the
  // store's own threads need it. Only those are spun away, for a sleep cannot end so exactly.
  uint64_t WaitUntil(uint64_t ns) override;

 private:
  const TickClock& ticks_;
  const uint64_t origin_;
};

}  // namespace dlsm::bench
