// Time that passes when a test says so.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "port/scheduler.h"

namespace dlsm::port {

// While there is one, it tells the thread that made it what time it is (port::Clock, and
// port::BootClock): what that thread sleeps passes at once. For what waits for no other thread, and
// makes none. One at a time.
class ManualClock final : public Scheduler {
 public:
  ManualClock() { SetCurrent(this); }
  ~ManualClock() override { SetCurrent(nullptr); }
  ManualClock(const ManualClock&) = delete;
  ManualClock& operator=(const ManualClock&) = delete;

  void Advance(std::chrono::nanoseconds duration) { now_ += duration; }
  // Time passes for port::BootClock alone.
  void Suspend(std::chrono::nanoseconds duration) { suspended_ += duration; }

  TimePoint Now() override { return now_; }
  std::chrono::nanoseconds Suspended() override { return suspended_; }
  void SleepUntil(TimePoint until) override { now_ = std::max(now_, until); }
  void Pause() override {}
  uint64_t Random() override { return 1; }

  void AwaitFree(const void*) override { NeedsOthers(); }
  void Freed(const void*) override {}
  bool Await(const void*, TimePoint until) override {
    if (until == TimePoint::max()) NeedsOthers();
    SleepUntil(until);
    return false;
  }
  void Signal(const void*, bool) override {}

  ThreadId NewThread() override { NeedsOthers(); }
  void Enter(ThreadId) override { NeedsOthers(); }
  void Leave() override { NeedsOthers(); }
  void Join(ThreadId) override { NeedsOthers(); }

 private:
  // A wait that would never end.
  [[noreturn]] static void NeedsOthers() { std::abort(); }

  TimePoint now_{std::chrono::hours(1)};  // Later than a time point that nobody has set.
  std::chrono::nanoseconds suspended_{0};
};

}  // namespace dlsm::port
