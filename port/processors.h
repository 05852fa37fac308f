// How many processors there are for this process.
#pragma once

#include <thread>

namespace dlsm::port {

// At least 1.
inline unsigned ProcessorCount() {
  const unsigned count = std::thread::hardware_concurrency();
  return count > 0 ? count : 1;  // 0: not known.
}

}  // namespace dlsm::port
