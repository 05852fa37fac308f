// The commands that took longest of late (SLOWLOG).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/session.h"
#include "port/mutex.h"

namespace dlsm::serve {

// Thread-safe.
class SlowLog {
 public:
  struct Entry {
    uint64_t number;
    int64_t at;  // Seconds since 1970.
    int64_t micros;
    std::vector<std::string> arguments;  // Shortened.
    std::string peer;
    std::string name;
  };

  // Commands that took so long are kept; below 0: none.
  int64_t slower_than() const { return slower_than_.load(std::memory_order_relaxed); }
  void set_slower_than(int64_t micros) { slower_than_ = micros; }
  size_t max_length() const { return max_length_; }
  void set_max_length(size_t length);

  void Add(const Session& session, const std::vector<Slice>& arguments, int64_t now,
           int64_t micros);
  // The newest first, at most `count`; below 0: all.
  std::vector<Entry> Newest(int64_t count) const;
  size_t length() const;
  // Entries so far.
  uint64_t added() const {
    const port::MutexLock lock(mutex_);
    return next_;
  }
  void Clear();

 private:
  std::atomic<int64_t> slower_than_{10'000};
  std::atomic<size_t> max_length_{128};
  mutable port::Mutex mutex_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  uint64_t next_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm::serve
