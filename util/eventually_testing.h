#pragma once

#include <chrono>
#include <thread>

#include "port/clock.h"

namespace dlsm {

// Waits until `condition` is true, for a minute at most: where others load the machine, what takes
// milliseconds may take seconds. Returns whether it is.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto until = port::Clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (port::Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace dlsm
