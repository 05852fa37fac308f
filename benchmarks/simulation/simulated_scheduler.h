// Runs the threads of a simulation one at a time, in an order and at times that follow from a seed.
//
// 1. Threads are the operating system's, but all except one wait for their turn. At every call of
//    port::Scheduler the one that runs may have to hand its turn to another, drawn among those that
//    could run; so a seed is an interleaving.
// 2. Time is a number. Each call adds a little to it, as work would; when no thread can run it
//    jumps to the next moment at which one can, or at which an event is due. Hours of leases and
//    retries pass in milliseconds.
// 3. Now and then a thread is held up where it stands, whatever locks it has, as a busy machine
//    would do it; and a wait ends for no reason, as the contract of condition variables allows.
// 4. Events (messages, transfers) are functions that run when they are due, between two steps of
//    whichever thread has the turn. They must not block.
// 5. If nobody can run and no event is due, or no end comes in sight, the simulation has failed:
//    who waits for what is told, and the process ends.
//
// Nothing here is locked: whoever has the turn has all of it, and the hand-over orders memory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port/scheduler.h"
#include "util/random.h"

namespace dlsm::simulation {

class SimulatedScheduler final : public port::Scheduler {
 public:
  struct Config {
    uint64_t seed = 1;
    uint64_t switch_one_in = 4;  // Calls at which another thread is drawn.
    std::chrono::nanoseconds step{200};
    uint64_t hold_up_one_in = 20'000;  // Calls; 0: no thread is held up.
    std::chrono::nanoseconds hold_up_max = std::chrono::milliseconds(50);
    uint64_t wake_one_in = 64;  // Waits that end for no reason; 0: none.
    // Beyond either, the simulation makes no progress.
    std::chrono::nanoseconds time_max = std::chrono::hours(1);
    uint64_t steps_max = 20'000'000;
  };
  struct Counts {
    uint64_t steps = 0;
    uint64_t switches = 0;
    uint64_t threads = 0;
    uint64_t events = 0;
    uint64_t hold_ups = 0;
    uint64_t jumps = 0;  // Of time, because nobody could run.
  };
  // Told why the simulation cannot go on; does not return.
  using Failure = std::function<void(const std::string& why)>;

  SimulatedScheduler(const Config& config, Failure failure);
  ~SimulatedScheduler() override;

  // Runs `body`, the first thread, on the calling one. All threads that it makes, it joins.
  void Run(const std::function<void()>& body);

  // `event` runs when time has reached `when`. Threads and other events may call this.
  void At(TimePoint when, std::function<void()> event);
  // Without the little that asking takes.
  TimePoint now() const { return now_; }
  // Ends the simulation, which has done wrong.
  void Fail(const std::string& why);

  const Counts& counts() const { return counts_; }
  std::chrono::nanoseconds elapsed() const { return now_ - kStart; }
  // Of all that was decided so far: equal for equal runs.
  uint64_t trace() const { return trace_; }
  // Makes `word` part of the trace.
  void Trace(uint64_t word);

  TimePoint Now() override;
  void SleepUntil(TimePoint until) override;
  void Pause() override;
  uint64_t Random() override { return entropy_.Next(); }
  void AwaitFree(const void* mutex) override;
  void Freed(const void* mutex) override;
  bool Await(const void* condition, TimePoint until) override;
  void Signal(const void* condition, bool all) override;
  ThreadId NewThread() override;
  void Enter(ThreadId thread) override;
  void Leave() override;
  void Join(ThreadId thread) override;

 private:
  struct Thread;
  using Timers = std::multimap<TimePoint, Thread*>;

  static constexpr TimePoint kStart{std::chrono::hours(1000)};

  void Step();
  void RunDueEvents();
  void WakeDueSleepers();
  // Gives the turn away; returns when it has come back.
  void Block(Thread* thread, const char* what, const void* object, TimePoint until);
  void Wake(Thread* thread, bool signalled);
  // Whose turn it is next; lets time pass until there is somebody.
  Thread* TakeNext();
  void SwitchTo(Thread* next);
  // Waits for it, and until a thread that has left is gone.
  void TakeTurn(Thread* self);
  std::string Describe() const;

  const Config config_;
  const Failure failure_;
  dlsm::Random random_;
  dlsm::Random entropy_;
  TimePoint now_ = kStart;
  uint64_t trace_ = 0;
  Counts counts_;

  std::vector<std::unique_ptr<Thread>> threads_;  // Those that have not left.
  std::vector<std::unique_ptr<Thread>> left_;     // Until they are joined.
  std::vector<Thread*> runnable_;                 // Without the one that runs.
  Timers timers_;
  std::multimap<TimePoint, std::function<void()>> events_;
  Thread* running_ = nullptr;
  pid_t leaving_ = 0;  // The system's number of a thread that has left and may not be gone yet.
  uint64_t mutex_waiters_ = 0;
  bool in_event_ = false;
};

}  // namespace dlsm::simulation
