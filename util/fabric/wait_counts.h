// How waits for messages over a network went.
#pragma once

#include <cstdint>

namespace dlsm {

struct WaitCounts {
  uint64_t polled = 0;  // What was waited for was there, or came before anybody slept.
  uint64_t slept = 0;
  uint64_t shared = 0;  // Of both: for reads over the connection that threads share.

  WaitCounts& operator+=(const WaitCounts& other) {
    polled += other.polled;
    slept += other.slept;
    shared += other.shared;
    return *this;
  }
};

}  // namespace dlsm
