// Background work that fails: when it is tried again, and when who waits for it is told.
#pragma once

#include <algorithm>
#include <chrono>

#include "dLSM/status.h"
#include "port/clock.h"

namespace dlsm {

// How often a kind of work has failed since it last succeeded. Not thread-safe.
class WorkFailures {
 public:
  using Clock = port::Clock;

  // A piece of work has ended. Returns whether that is the first failure.
  bool Note(const Status& status) {
    if (status.ok()) {
      count_ = 0;
    } else {
      if (count_++ == 0) since_ = Clock::now();
      retry_at_ = Clock::now() + PauseAfter(count_);
    }
    last_ = status;
    return count_ == 1;
  }

  bool any() const { return count_ > 0; }
  int count() const { return count_; }
  Clock::time_point since() const { return since_; }  // When the first of them was.
  // OK: the last piece of work has succeeded.
  const Status& last() const { return last_; }

  // Who waits for such work is not told of so few of them.
  bool tolerable() const { return count_ < kTolerated; }
  void Forgive() { count_ = 0; }
  // However many there have been, one more is told; fewer are not forgotten.
  void LetOneMoreTell() { count_ = std::min(count_, kTolerated - 1); }

  // Whether it is too early to try again.
  bool rests() const { return any() && Clock::now() < retry_at_; }
  Clock::time_point retry_at() const { return retry_at_; }
  void RetryNow() { retry_at_ = Clock::now(); }
  void RetryBy(Clock::time_point when) { retry_at_ = std::min(retry_at_, when); }

 private:
  static constexpr int kTolerated = 3;

  static std::chrono::milliseconds PauseAfter(int failures) {
    constexpr int kFirstMs = 50;
    constexpr int kMostMs = 2000;
    return std::chrono::milliseconds(std::min(kFirstMs << std::min(failures - 1, 6), kMostMs));
  }

  int count_ = 0;
  Clock::time_point since_;
  Status last_;
  Clock::time_point retry_at_;
};

// The same of work that nobody has asked for, so that nobody has lost anything by a failure: it is
// tried again later, twice as late each time. Not thread-safe.
class IdleWorkFailures {
 public:
  using Clock = port::Clock;

  void Note(const Status& status) {
    if (status.ok()) {
      count_ = 0;
      return;
    }
    retry_at_ = Clock::now() + kFirstPause * (1 << std::min(count_, kDoublings));
    ++count_;
  }

  bool rests() const { return Clock::now() < retry_at_; }
  Clock::time_point retry_at() const { return retry_at_; }

 private:
  static constexpr auto kFirstPause = std::chrono::seconds(1);
  static constexpr int kDoublings = 6;

  int count_ = 0;
  Clock::time_point retry_at_;
};

}  // namespace dlsm
