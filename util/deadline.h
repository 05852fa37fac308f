// A point in time after which a wait gives up. Every wait of the project takes one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "port/clock.h"

namespace dlsm {

class Deadline {
 public:
  using Clock = port::Clock;

  static Deadline In(std::chrono::nanoseconds duration) {
    return Deadline(Clock::now() + duration);
  }
  static Deadline At(Clock::time_point when) { return Deadline(when); }

  // Put off while the wait is under way: it has passed when both `when` and *until have. Whoever
  // moves *until on wakes nobody: a wait looks at it when its time is over. *until outlives it.
  static Deadline Extendable(Clock::time_point when, const std::atomic<Clock::time_point>* until) {
    Deadline deadline(when);
    deadline.until_ = until;
    return deadline;
  }

  // As it is now.
  Clock::time_point time_point() const {
    // Relaxed: it orders nothing.
    return until_ == nullptr ? when_ : std::max(when_, until_->load(std::memory_order_relaxed));
  }
  bool Passed() const { return Clock::now() >= time_point(); }
  // Zero once the deadline has passed.
  std::chrono::nanoseconds Remaining() const {
    const auto left = time_point() - Clock::now();
    return left.count() > 0 ? left : std::chrono::nanoseconds(0);
  }
  // For the first of `waits` that share what is left of the time.
  Deadline PartOf(size_t waits) const { return In(Remaining() / static_cast<int64_t>(waits)); }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}

  Clock::time_point when_;
  const std::atomic<Clock::time_point>* until_ = nullptr;
};

}  // namespace dlsm
