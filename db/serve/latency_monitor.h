// What took longer than it should, by kinds of events (LATENCY): of each kind the last samples.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "port/mutex.h"

namespace dlsm::serve {

// Thread-safe.
class LatencyMonitor {
 public:
  struct Sample {
    int64_t at;      // Seconds since 1970.
    int64_t millis;  // The longest of that second.
  };
  struct Event {
    std::deque<Sample> samples;  // The newest last.
    int64_t most_millis = 0;     // Of all, also of those that are forgotten.
  };

  // Events that take at least so many milliseconds are kept; 0: none.
  int64_t threshold() const { return threshold_.load(std::memory_order_relaxed); }
  void set_threshold(int64_t millis) { threshold_.store(millis, std::memory_order_relaxed); }

  // `now`: milliseconds since 1970.
  void AddIfSlow(const char* event, int64_t now, int64_t micros) {
    constexpr int64_t kMicrosPerMilli = 1000;
    const int64_t least = threshold();
    if (least == 0 || micros < least * kMicrosPerMilli) [[likely]]
      return;
    Add(event, now / 1000, micros / kMicrosPerMilli);
  }

  std::map<std::string, Event> All() const LOCKS_EXCLUDED(mutex_);
  // Forgets one kind. Returns whether there was something to forget.
  bool Forget(const std::string& event) LOCKS_EXCLUDED(mutex_);
  // Forgets all, and returns how many kinds there were.
  size_t ForgetAll() LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kSamplesMost = 160;

  void Add(const char* event, int64_t seconds, int64_t millis) LOCKS_EXCLUDED(mutex_);

  std::atomic<int64_t> threshold_{0};
  mutable port::Mutex mutex_;
  std::map<std::string, Event> events_ GUARDED_BY(mutex_);
};

}  // namespace dlsm::serve
