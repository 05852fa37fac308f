// The seam below everything that blocks, spins, makes a thread, or asks what time it is.
//
// A thread whose Current() is null, as all are in production, uses the operating system's locks,
// threads and clock, at the price of one load and one branch that is predicted. A simulation gives
// its threads a Scheduler: exactly one of them runs at a time, who goes on where is the scheduler's
// choice, and time is what it says. (benchmarks/simulation/)
#pragma once

#include <chrono>
#include <cstdint>

namespace dlsm::port {

// Called by the thread that runs. Conditions and mutexes are addresses, and nothing else.
class Scheduler {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class ThreadId : uint64_t {};

  // Of the calling thread; null: it is nobody's but the operating system's.
  static Scheduler* Current() { return current_; }

  virtual ~Scheduler() = default;

  virtual TimePoint Now() = 0;
  // For how long the machine has been suspended so far: of that Now() knows nothing.
  virtual std::chrono::nanoseconds Suspended() { return std::chrono::nanoseconds::zero(); }
  virtual void SleepUntil(TimePoint until) = 0;
  // Others may run before this returns.
  virtual void Pause() = 0;
  // Takes the place of the operating system's entropy.
  virtual uint64_t Random() = 0;

  // The caller could not take `mutex`: returns after Freed() of it.
  virtual void AwaitFree(const void* mutex) = 0;
  // The caller has let go of `mutex`. Does not switch to another thread.
  virtual void Freed(const void* mutex) = 0;

  // Returns after Signal() chose the caller, at `until` with false, or for no reason at all.
  virtual bool Await(const void* condition, TimePoint until) = 0;
  virtual void Signal(const void* condition, bool all) = 0;

  // A thread is made in three steps, and ends in two: its maker takes a number for it, it enters
  // (and waits for its turn), its maker goes on; at its very end it leaves, and Join() returns.
  virtual ThreadId NewThread() = 0;
  virtual void Enter(ThreadId thread) = 0;
  virtual void Leave() = 0;
  virtual void Join(ThreadId thread) = 0;

 protected:
  static void SetCurrent(Scheduler* scheduler) { current_ = scheduler; }

 private:
  // Its access model costs no call, in a shared library neither.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Scheduler* current_ =
      nullptr;
};

// In code without locks: a place where an interleaving matters, so that a simulation visits it.
inline void InterleavingPoint() {
  if (Scheduler* const scheduler = Scheduler::Current()) [[unlikely]] {
    scheduler->Pause();
  }
}

}  // namespace dlsm::port
