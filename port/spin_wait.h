// Waiting for another thread that needs a moment: first this spins, then it lets others run, then
// it sleeps. Such a thread may have been held up, and then nobody keeps a processor busy for it.
#pragma once

#include <chrono>

#include "port/clock.h"
#include "port/cpu.h"
#include "port/thread.h"

namespace dlsm::port {

// One wait of one thread.
class SpinWait {
 public:
  // To be called each time the condition does not hold.
  void Pause() {
    if (rounds_ < kSpins) {
      CpuRelax();
    } else if (rounds_ < kSpins + kYields) {
      Yield();
    } else {
      SleepFor(kNap);
      return;
    }
    ++rounds_;
  }

 private:
  static constexpr int kSpins = 1000;
  static constexpr int kYields = 100;
  static constexpr std::chrono::microseconds kNap{50};

  int rounds_ = 0;
};

}  // namespace dlsm::port
