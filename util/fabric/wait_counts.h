// How waits for messages over a network went.
#pragma once

#include <cstdint>

namespace dlsm {

struct WaitCounts {
  uint64_t polled = 0;  // What was waited for was there, or came before anybody slept.
  uint64_t slept = 0;

  WaitCounts& operator+=(const WaitCounts& other) {
    polled += other.polled;
    slept += other.slept;
    return *this;
  }
};

}  // namespace dlsm
