// Locks of records: the writes of one record come one after the other. Records share a fixed number
// of locks by the hashes of their keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "dLSM/slice.h"
#include "port/mutex.h"
#include "util/hash.h"

namespace dlsm {

// Thread-safe.
class RecordLocks {
 public:
  explicit RecordLocks(size_t count) : count_(count), locks_(new Padded[count]) {}

  size_t NumberOf(const Slice& key) const { return Hash64(key) % count_; }

 private:
  friend class HeldRecords;
  // Two locks share no cache line.
  struct alignas(64) Padded {
    port::Mutex mutex;
  };

  const size_t count_;
  const std::unique_ptr<Padded[]> locks_;
};

// The locks of some records, held until the object is destroyed. It takes all of them at once and
// in the order of their numbers: so no two threads wait for each other.
class HeldRecords {
 public:
  HeldRecords(RecordLocks& locks, const std::vector<Slice>& keys) : locks_(locks) {
    for (const Slice& key : keys) numbers_.push_back(locks.NumberOf(key));
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    LockAll();
  }
  HeldRecords(const HeldRecords&) = delete;
  HeldRecords& operator=(const HeldRecords&) = delete;
  ~HeldRecords() { UnlockAll(); }

 private:
  // The analysis cannot follow locks that are chosen by number.
  void LockAll() NO_THREAD_SAFETY_ANALYSIS {
    for (const size_t number : numbers_) locks_.locks_[number].mutex.Lock();
  }
  void UnlockAll() NO_THREAD_SAFETY_ANALYSIS {
    for (const size_t number : numbers_) locks_.locks_[number].mutex.Unlock();
  }

  RecordLocks& locks_;
  std::vector<size_t> numbers_;
};

}  // namespace dlsm
