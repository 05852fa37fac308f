// How fast merges that reads have asked for follow each other where others want the processors that
// they take, in particular readers of the same machine. One by one they take a tenth of the time,
// however soon reads ask for them; but half a second's worth of them, which is all that a gigabyte
// needs, waits for nothing if there were none for a while. (A token bucket, in time.)
#pragma once

#include <algorithm>
#include <chrono>

#include "port/clock.h"
#include "port/mutex.h"

namespace dlsm {

// Of all shards of a handle. Thread-safe.
class ReadMergePacer {
 public:
  using Clock = port::Clock;

  static constexpr int kTimes = 10;  // As long as a merge took it counts for.
  static constexpr auto kBurst = std::chrono::milliseconds(500);
  // A merge may have waited for others, or for a memory node that does not answer, most of its
  // time.
  static constexpr auto kRestMax = std::chrono::seconds(30);

  // From when on the next one may begin, which is the past if it may now. Of one that is under way
  // nobody knows the end: it is to be asked again a moment later.
  Clock::time_point Next(Clock::time_point now) const LOCKS_EXCLUDED(mutex_) {
    constexpr auto kMoment = std::chrono::milliseconds(100);
    port::MutexLock lock(mutex_);
    return running_ > 0 ? now + kMoment : paid_until_;
  }

  // Whether one begins now, which is under way then: if they are `paced`, only one that may. Of
  // threads of several shards that have asked Next() at the same time, as they do when a rest ends,
  // one is told so.
  bool Begin(Clock::time_point now, bool paced) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    if (paced && (running_ > 0 || paid_until_ > now)) return false;
    ++running_;
    return true;
  }
  void NoteEnded(Clock::time_point began, Clock::time_point now) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    --running_;
    paid_until_ = std::max(paid_until_, began - kTimes * kBurst) + kTimes * (now - began);
    paid_until_ = std::min(paid_until_, now + kRestMax);
  }

 private:
  mutable port::Mutex mutex_;  // Protects what follows. Taken after Background's.
  int running_ GUARDED_BY(mutex_) = 0;
  Clock::time_point paid_until_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
