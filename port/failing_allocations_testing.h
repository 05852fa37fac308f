// Memory that is not to be had while a test wants to see what becomes of it.
#pragma once

#include <cstdint>
#include <new>

#include "port/allocation_point.h"

namespace dlsm::port {

// While there is one, the n-th allocation at an AllocationPoint(), n from 1, fails, and so do all
// after it: those of the thread that made it, no others. One at a time.
class FailingAllocations {
 public:
  explicit FailingAllocations(uint64_t n) {
    left_ = n;
    failed_ = 0;
    AllocationHookOfProcess() = &Count;
  }
  ~FailingAllocations() {
    AllocationHookOfProcess() = nullptr;
    left_ = 0;
  }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  // How many there have been that failed.
  uint64_t failed() const { return failed_; }

 private:
  static void Count() {
    if (left_ == 0) return;  // Another thread's.
    if (left_ > 1) {
      --left_;
      return;
    }
    ++failed_;
    throw std::bad_alloc();
  }

  static inline thread_local uint64_t left_ = 0;
  static inline thread_local uint64_t failed_ = 0;
};

}  // namespace dlsm::port
