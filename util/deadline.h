// A point in time after which a wait gives up. Every wait of the project takes one.
#pragma once

#include <chrono>

namespace dlsm {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline In(std::chrono::nanoseconds duration) {
    return Deadline(Clock::now() + duration);
  }
  static Deadline At(Clock::time_point when) { return Deadline(when); }

  Clock::time_point time_point() const { return when_; }
  bool Passed() const { return Clock::now() >= when_; }
  // Zero once the deadline has passed.
  std::chrono::nanoseconds Remaining() const {
    const auto left = when_ - Clock::now();
    return left.count() > 0 ? left : std::chrono::nanoseconds(0);
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}

  Clock::time_point when_;
};

}  // namespace dlsm
