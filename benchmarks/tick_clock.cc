#include "benchmarks/tick_clock.h"

#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dlsm::bench {
namespace {

// Whether the counter runs at one rate whatever the processor's frequency and sleep state.
bool CounterIsInvariant() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

TickClock::TickClock() {
  if (!CounterIsInvariant()) return;
  uses_counter_ = true;
  const uint64_t steady_start = SteadyNanoseconds();
  const uint64_t start = Now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const uint64_t steady_end = SteadyNanoseconds();
  const uint64_t end = Now();
  nanoseconds_per_tick_ =
      static_cast<double>(steady_end - steady_start) / static_cast<double>(end - start);
}

}  // namespace dlsm::bench
