// Memory that is not to be had while a test wants to see what becomes of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "port/allocation_point.h"

namespace dlsm::port {

// While there is one, the n-th allocation at an AllocationPoint() without a name, n from 1, fails,
// and so do all after it: those of the thread that made it, no others. One at a time.
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
  static void Count(const char* place) {
    if (place != nullptr || left_ == 0) return;  // Another thread's.
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

// While there is one, all allocations at an AllocationPoint() without a name fail but for the first
// `made` ones: those of all threads, or of all but the one that made it. One at a time, and none of
// the above beside it.
class FailingAllocationsOfAll {
 public:
  enum class Spared : uint8_t { kNobody, kItsMaker };

  explicit FailingAllocationsOfAll(Spared spared, int64_t made = 0) {
    is_spared_ = spared == Spared::kItsMaker;
    made_left_ = made;
    failed_ = 0;
    AllocationHookOfProcess() = &Fail;
  }
  ~FailingAllocationsOfAll() {
    AllocationHookOfProcess() = nullptr;
    is_spared_ = false;
  }
  FailingAllocationsOfAll(const FailingAllocationsOfAll&) = delete;
  FailingAllocationsOfAll& operator=(const FailingAllocationsOfAll&) = delete;

  uint64_t failed() const { return failed_; }

 private:
  static void Fail(const char* place) {
    if (place != nullptr || is_spared_ || made_left_.fetch_sub(1) > 0) return;
    ++failed_;
    throw std::bad_alloc();
  }

  static inline thread_local bool is_spared_ = false;
  static inline std::atomic<int64_t> made_left_{0};
  static inline std::atomic<uint64_t> failed_{0};
};

// While there is one, the allocations at the AllocationPoint() of this name fail, whichever thread
// makes them, but for the first `made` ones. One at a time, and none of the above beside it.
class FailingAllocationsAt {
 public:
  // `place`: a literal.
  explicit FailingAllocationsAt(const char* place, int64_t made = 0) {
    place_ = place;
    made_left_ = made;
    failed_ = 0;
    AllocationHookOfProcess() = &Fail;
  }
  ~FailingAllocationsAt() { AllocationHookOfProcess() = nullptr; }
  FailingAllocationsAt(const FailingAllocationsAt&) = delete;
  FailingAllocationsAt& operator=(const FailingAllocationsAt&) = delete;

  uint64_t failed() const { return failed_; }

 private:
  static void Fail(const char* place) {
    if (place == nullptr || std::strcmp(place, place_.load()) != 0) return;
    if (made_left_.fetch_sub(1) > 0) return;
    ++failed_;
    throw std::bad_alloc();
  }

  static inline std::atomic<const char*> place_{""};
  static inline std::atomic<int64_t> made_left_{0};
  static inline std::atomic<uint64_t> failed_{0};
};

}  // namespace dlsm::port
