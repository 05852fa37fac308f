// Which numbers of writes are safe, as far as a log is. Its positions are not in the order of
// numbers: a write takes its place first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "db/log/log_frame.h"
#include "port/mutex.h"
#include "table/internal_key.h"

namespace dlsm {

// Thread-safe.
class DurableMarks {
 public:
  // All writes up to `sequence` have their frames before `position`.
  void Add(SequenceNumber sequence, LogPosition position) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    // The oldest are reached first, the newest says most.
    if (marks_.size() == kMarksMax) marks_.pop_back();
    marks_.push_back({sequence, position});
  }
  // The log is safe before `position`: returns the largest number up to which all writes are.
  SequenceNumber Reach(LogPosition position) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    std::erase_if(marks_, [&](const Mark& mark) {
      mutex_.AssertHeld();
      if (mark.position > position) return false;
      reached_ = std::max(reached_, mark.sequence);
      return true;
    });
    return reached_;
  }

 private:
  static constexpr size_t kMarksMax = 64;
  struct Mark {
    SequenceNumber sequence;
    LogPosition position;
  };

  port::Mutex mutex_;
  std::deque<Mark> marks_ GUARDED_BY(mutex_);
  SequenceNumber reached_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
