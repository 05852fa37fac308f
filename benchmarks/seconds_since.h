// Time that has passed, for reports.
#pragma once

#include <chrono>

namespace dlsm::bench {

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace dlsm::bench
