// Lines about connections of strangers: so few a second that nobody can fill a disk with them.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "port/clock.h"
#include "port/mutex.h"
#include "util/log.h"

namespace dlsm {

// Thread-safe.
class StrangerLog {
 public:
  static constexpr int kLinesPerSecond = 20;

  template <typename... Arguments>
  void Warn(fmt::format_string<Arguments...> format, Arguments&&... arguments)
      LOCKS_EXCLUDED(mutex_) {
    uint64_t dropped = 0;
    if (!Take(&dropped)) return;
    if (dropped > 0) Log().Warn("{} more warnings like these were left out", dropped);
    Log().Warn("{}", fmt::format(format, std::forward<Arguments>(arguments)...));
  }

 private:
  // Whether this line may be written; *dropped were not since the last one that was.
  bool Take(uint64_t* dropped) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    const auto now = port::Clock::now();
    if (now - began_ >= std::chrono::seconds(1)) {
      began_ = now;
      lines_ = 0;
    }
    if (lines_ >= kLinesPerSecond) {
      ++dropped_;
      return false;
    }
    ++lines_;
    *dropped = std::exchange(dropped_, 0);
    return true;
  }

  port::Mutex mutex_;  // Protects what follows.
  port::Clock::time_point began_ GUARDED_BY(mutex_){};
  int lines_ GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
