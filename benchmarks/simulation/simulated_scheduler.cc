#include "benchmarks/simulation/simulated_scheduler.h"

#include <fmt/core.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace dlsm::simulation {
namespace {

// One thread waits for it, another gives it, once for each wait.
class Turn {
 public:
  void Give() {
    // Release: the next one sees all that this one did.
    word_.store(1, std::memory_order_release);
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void Take() {
    while (word_.exchange(0, std::memory_order_acquire) == 0) {
      syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  std::atomic<uint32_t> word_{0};
};

}  // namespace

struct SimulatedScheduler::Thread {
  uint64_t number = 0;
  Turn turn;
  const char* what = nullptr;    // It waits for; null: it can run.
  const void* object = nullptr;  // Of which it waits for that.
  bool signalled = false;
  bool ended = false;
  bool timed = false;
  Timers::iterator timer;
  pthread_t handle{};
  pid_t id = 0;  // The system's.
  bool entered = false;
};

SimulatedScheduler::SimulatedScheduler(const Config& config, Failure failure)
    : config_(config), failure_(std::move(failure)), random_(config.seed), entropy_(~config.seed) {}

SimulatedScheduler::~SimulatedScheduler() = default;

void SimulatedScheduler::Run(const std::function<void()>& body) {
  running_ = reinterpret_cast<Thread*>(NewThread());
  std::erase(runnable_, running_);
  running_->handle = pthread_self();
  running_->entered = true;
  SetCurrent(this);
  body();
  SetCurrent(nullptr);
  if (threads_.size() > 1) Fail("threads were left behind");
  threads_.clear();
}

void SimulatedScheduler::At(TimePoint when, std::function<void()> event) {
  events_.emplace(std::max(when, now_), std::move(event));
}

void SimulatedScheduler::Trace(uint64_t word) { trace_ = SplitMix64(trace_ ^ word); }

// -------- Time

void SimulatedScheduler::Step() {
  ++counts_.steps;
  now_ += std::chrono::nanoseconds(
      random_.Uniform(static_cast<uint64_t>(2 * config_.step.count()) + 1));
  RunDueEvents();
  WakeDueSleepers();
  if (counts_.steps > config_.steps_max || elapsed() > config_.time_max) {
    Fail(fmt::format("no end after {} steps and {:.1f} virtual seconds", counts_.steps,
                     std::chrono::duration<double>(elapsed()).count()));
  }
}

void SimulatedScheduler::RunDueEvents() {
  if (in_event_) return;
  in_event_ = true;
  while (!events_.empty() && events_.begin()->first <= now_) {
    const auto event = events_.extract(events_.begin());
    ++counts_.events;
    event.mapped()();
  }
  in_event_ = false;
}

void SimulatedScheduler::WakeDueSleepers() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    Wake(timers_.begin()->second, /*signalled=*/false);
  }
}

SimulatedScheduler::TimePoint SimulatedScheduler::Now() {
  // Who waits for a time in a loop gets there.
  now_ += std::chrono::nanoseconds(random_.Uniform(100));
  return now_;
}

// -------- Turns

void SimulatedScheduler::Wake(Thread* thread, bool signalled) {
  if (thread->timed) timers_.erase(thread->timer);
  thread->timed = false;
  thread->signalled = signalled;
  thread->what = nullptr;
  thread->object = nullptr;
  runnable_.push_back(thread);
}

SimulatedScheduler::Thread* SimulatedScheduler::TakeNext() {
  while (runnable_.empty()) {
    if (timers_.empty() && events_.empty()) Fail("nobody can run, and nothing is to come");
    TimePoint next = TimePoint::max();
    if (!timers_.empty()) next = timers_.begin()->first;
    if (!events_.empty()) next = std::min(next, events_.begin()->first);
    now_ = std::max(now_, next);
    ++counts_.jumps;
    Step();
  }
  const size_t i = random_.Uniform(runnable_.size());
  Thread* const next = runnable_[i];
  runnable_[i] = runnable_.back();
  runnable_.pop_back();
  return next;
}

void SimulatedScheduler::SwitchTo(Thread* next) {
  Thread* const self = running_;
  if (next == self) return;
  ++counts_.switches;
  Trace(next->number ^ static_cast<uint64_t>(now_.time_since_epoch().count()));
  running_ = next;
  const bool ended = self->ended;
  next->turn.Give();
  if (!ended) TakeTurn(self);
}

// What a thread keeps of the heap goes back when it is gone, so where the next object comes to lie,
// which may be where an earlier one lay, would be the machine's to decide.
void SimulatedScheduler::TakeTurn(Thread* self) {
  self->turn.Take();
  if (leaving_ == 0) return;
  while (syscall(SYS_tgkill, getpid(), leaving_, 0) == 0) sched_yield();
  leaving_ = 0;
}

void SimulatedScheduler::Block(Thread* thread, const char* what, const void* object,
                               TimePoint until) {
  thread->what = what;
  thread->object = object;
  thread->signalled = false;
  if (until != TimePoint::max()) {
    thread->timer = timers_.emplace(until, thread);
    thread->timed = true;
  }
  Step();
  SwitchTo(TakeNext());
}

void SimulatedScheduler::Pause() {
  if (in_event_) Fail("an event waits");
  Step();
  if (config_.hold_up_one_in > 0 && random_.OneIn(config_.hold_up_one_in)) {
    ++counts_.hold_ups;
    const auto longest = static_cast<uint64_t>(config_.hold_up_max.count());
    Block(running_, "being held up", nullptr,
          now_ + std::chrono::nanoseconds(random_.Uniform(longest)));
    return;
  }
  if (runnable_.empty() || !random_.OneIn(config_.switch_one_in)) return;
  runnable_.push_back(running_);
  SwitchTo(TakeNext());
}

void SimulatedScheduler::SleepUntil(TimePoint until) {
  if (in_event_) Fail("an event sleeps");
  Block(running_, "a time", nullptr, until);
}

// -------- Locks and conditions

void SimulatedScheduler::AwaitFree(const void* mutex) {
  if (in_event_) Fail("an event waits for a mutex");
  ++mutex_waiters_;
  Block(running_, "a mutex", mutex, TimePoint::max());
  --mutex_waiters_;
}

void SimulatedScheduler::Freed(const void* mutex) {
  if (mutex_waiters_ == 0) return;
  for (const auto& thread : threads_) {
    if (thread->object == mutex && thread->what != nullptr) Wake(thread.get(), true);
  }
}

bool SimulatedScheduler::Await(const void* condition, TimePoint until) {
  if (config_.wake_one_in > 0 && random_.OneIn(config_.wake_one_in)) {
    Pause();
    return true;
  }
  Block(running_, "a condition", condition, until);
  return running_->signalled;
}

void SimulatedScheduler::Signal(const void* condition, bool all) {
  std::vector<Thread*> waiting;
  for (const auto& thread : threads_) {
    if (thread->object == condition && thread->what != nullptr) waiting.push_back(thread.get());
  }
  if (waiting.empty()) return;
  if (all) {
    for (Thread* const thread : waiting) Wake(thread, /*signalled=*/true);
  } else {
    Wake(waiting[random_.Uniform(waiting.size())], /*signalled=*/true);
  }
}

// -------- Threads

port::Scheduler::ThreadId SimulatedScheduler::NewThread() {
  auto thread = std::make_unique<Thread>();
  thread->number = counts_.threads++;
  runnable_.push_back(thread.get());
  threads_.push_back(std::move(thread));
  return static_cast<ThreadId>(reinterpret_cast<uintptr_t>(threads_.back().get()));
}

void SimulatedScheduler::Enter(ThreadId thread) {
  auto* const self = reinterpret_cast<Thread*>(static_cast<uintptr_t>(thread));
  TakeTurn(self);
  self->handle = pthread_self();
  self->id = gettid();
  self->entered = true;
  SetCurrent(this);
}

void SimulatedScheduler::Leave() {
  Thread* const self = running_;
  self->ended = true;
  const auto at = std::find_if(threads_.begin(), threads_.end(),
                               [self](const auto& each) { return each.get() == self; });
  left_.push_back(std::move(*at));
  threads_.erase(at);
  Signal(self, /*all=*/true);
  Step();
  Thread* const next = TakeNext();
  SetCurrent(nullptr);
  leaving_ = self->id;
  SwitchTo(next);
}

void SimulatedScheduler::Join(ThreadId thread) {
  const auto* const joined = reinterpret_cast<const Thread*>(static_cast<uintptr_t>(thread));
  const auto find = [&] {
    return std::find_if(left_.begin(), left_.end(),
                        [joined](const auto& each) { return each.get() == joined; });
  };
  while (find() == left_.end()) Block(running_, "the end of a thread", joined, TimePoint::max());
}

// -------- Failures

std::string SimulatedScheduler::Describe() const {
  std::string text;
  for (const auto& thread : threads_) {
    char name[16] = "not begun";
    if (thread->entered) pthread_getname_np(thread->handle, name, sizeof(name));
    const char* what = thread->what != nullptr ? thread->what : "its turn";
    text += fmt::format("  thread {} ({}): {}\n", thread->number, name,
                        thread.get() == running_ && thread->what == nullptr
                            ? "runs"
                            : fmt::format("waits for {} {}", what, thread->object));
  }
  return text;
}

void SimulatedScheduler::Fail(const std::string& why) {
  failure_(fmt::format("{}, at {:.6f} virtual seconds\n{}", why,
                       std::chrono::duration<double>(elapsed()).count(), Describe()));
  _exit(1);
}

}  // namespace dlsm::simulation
