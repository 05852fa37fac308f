#include "benchmarks/arrival_clock.h"

#include <chrono>
#include <thread>

#include "port/cpu.h"

namespace dlsm::bench {
namespace {

// A sleeping thread is woken this much late at most, if a processor is free.
constexpr uint64_t kWakeUpNs = 150'000;
// What giving up the processor costs where nobody wants it, and more.
constexpr uint64_t kYieldNs = 5'000;

}  // namespace

uint64_t TickArrivalClock::WaitUntil(uint64_t ns) {
  uint64_t now = NowNs();
  while (now < ns) {
    const uint64_t left = ns - now;
    if (left > 2 * kWakeUpNs) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(left - kWakeUpNs));
    } else if (left > kYieldNs) {
      std::this_thread::yield();
    } else {
      port::CpuRelax();
    }
    now = NowNs();
  }
  return now;
}

}  // namespace dlsm::bench
