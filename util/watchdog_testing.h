// Ends a test that hangs, where what hangs cannot be joined.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace dlsm {

// Ends the program unless it is gone in time.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds time)
      : thread_([this, time] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (ended_.wait_for(lock, time, [this] { return done_; })) return;
          std::fputs("a test hangs\n", stderr);
          std::abort();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace dlsm
