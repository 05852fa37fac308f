// The locks of the project: std::mutex and std::condition_variable with thread safety annotations,
// and, for threads that have one, a scheduler's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "port/scheduler.h"
#include "port/thread_annotations.h"

namespace dlsm::port {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() EXCLUSIVE_LOCK_FUNCTION() {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return LockBy(*scheduler);
    mutex_.lock();
  }
  bool TryLock() EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    InterleavingPoint();
    return mutex_.try_lock();
  }
  void Unlock() UNLOCK_FUNCTION() {
    mutex_.unlock();
    // Somebody else may have destroyed this by now.
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]] {
      scheduler->Freed(this);
      scheduler->Pause();
    }
  }
  // Tells the analysis, and nobody else, that the caller holds this mutex (for lambdas).
  void AssertHeld() const ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;

  void LockBy(Scheduler& scheduler) {
    scheduler.Pause();
    while (!mutex_.try_lock()) scheduler.AwaitFree(this);
  }

  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Of a mutex that the caller has locked: unlocks it at the end.
class SCOPED_CAPABILITY AdoptedLock {
 public:
  explicit AdoptedLock(Mutex& mutex) EXCLUSIVE_LOCKS_REQUIRED(mutex) : mutex_(mutex) {}
  ~AdoptedLock() UNLOCK_FUNCTION() { mutex_.Unlock(); }
  AdoptedLock(const AdoptedLock&) = delete;
  AdoptedLock& operator=(const AdoptedLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for one Mutex, given at construction. All waits need that mutex held and may
// wake without a signal: callers loop on their condition.
class CondVar {
 public:
  explicit CondVar(Mutex& mutex) : mutex_(mutex) {}
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait() {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]] {
      static_cast<void>(WaitBy(*scheduler, Scheduler::TimePoint::max()));
      return;
    }
    std::unique_lock<std::mutex> lock(mutex_.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // Returns false when `until` has passed.
  bool WaitUntil(std::chrono::steady_clock::time_point until) {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return WaitBy(*scheduler, until);
    std::unique_lock<std::mutex> lock(mutex_.mutex_, std::adopt_lock);
    const auto verdict = condition_.wait_until(lock, until);
    lock.release();
    return verdict == std::cv_status::no_timeout;
  }

  void Signal() {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return scheduler->Signal(this, /*all=*/false);
    condition_.notify_one();
  }
  void SignalAll() {
    Scheduler* const scheduler = Scheduler::Current();
    if (scheduler != nullptr) [[unlikely]]
      return scheduler->Signal(this, /*all=*/true);
    condition_.notify_all();
  }

 private:
  // Nobody else runs between the first and the third step, so no signal is missed.
  bool WaitBy(Scheduler& scheduler, Scheduler::TimePoint until) {
    mutex_.mutex_.unlock();
    scheduler.Freed(&mutex_);
    const bool signalled = scheduler.Await(this, until);
    mutex_.LockBy(scheduler);
    return signalled;
  }

  Mutex& mutex_;
  std::condition_variable condition_;
};

}  // namespace dlsm::port
