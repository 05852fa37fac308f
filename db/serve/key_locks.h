// Locks of keys, so that commands that read and write are atomic although event loops run side by
// side. Keys share a fixed number of locks by their hashes.
#pragma once

#include <bitset>
#include <cstddef>
#include <span>
#include <string>

#include "dLSM/slice.h"
#include "port/mutex.h"

namespace dlsm::serve {

// Thread-safe.
class KeyLocks {
 public:
  static constexpr size_t kCount = 1024;

  KeyLocks() : released_(mutex_) {}

 private:
  friend class HeldLocks;

  port::Mutex mutex_;
  port::CondVar released_;
  std::bitset<kCount> held_ GUARDED_BY(mutex_);
  size_t waiting_ GUARDED_BY(mutex_) = 0;
  size_t all_wanted_ GUARDED_BY(mutex_) = 0;  // By so many threads, which come first.
};

// What one thread holds, until it is destroyed. It waits only while it holds nothing: a
// thread that holds one lock and waits for another could wait for a thread that waits for it.
class HeldLocks {
 public:
  explicit HeldLocks(KeyLocks* locks) : locks_(*locks) {}
  HeldLocks(const HeldLocks&) = delete;
  HeldLocks& operator=(const HeldLocks&) = delete;
  ~HeldLocks() { Release(); }

  // False, and nothing has changed, if locks are held already and not all of these can be had.
  bool Take(std::span<const std::string> keys);
  // All that there are. None is held before.
  void TakeAll();
  void Release();

 private:
  KeyLocks& locks_;
  std::bitset<KeyLocks::kCount> mine_;
};

}  // namespace dlsm::serve
