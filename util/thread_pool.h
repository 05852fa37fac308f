// Threads for what happens in the background, which all open handles of a process share: a handle
// that has nothing to do costs no thread.
//
//   Task::Wake() ────────────> ready ──┐
//   its time comes ──────────> due ────┴──> workers: run ──> when to run again
//   dispatcher: watches the time, and adds workers
//
// 1. A task is one kind of work of one owner. It is run when it was woken, and at the time that its
//    last run has asked for. It may have several runs at once, as many as its owner wants.
// 2. A task that was woken goes to a worker that sleeps, the one that fell asleep last. What has
//    become due is mostly short (heartbeats): one worker does one after the other, as long as none
//    has to wait for another for longer than kPatience.
// 3. The dispatcher adds a worker when there is work and none sleeps: the first few at once, more
//    only for work that has waited for kPatience, and then at most as many as there are, so that a
//    moment in which the machine stood still does not make a thread for each task. There are never
//    more than the tasks may have runs together, so none has to wait for others, whatever these
//    wait for. A worker that was not needed for a while ends.
// 4. Tasks of a group have a limit on their runs together: where a memory node does not answer, the
//    tasks of many handles would otherwise have a thread each wait for it.
//
// Only to make tasks and threads needs memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "port/clock.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/numa.h"

namespace dlsm {

// Thread-safe.
class ThreadPool {
 public:
  using Clock = port::Clock;
  class Task;
  class Group;

  struct Config {
    // So many workers are added as soon as there is work for them.
    size_t workers_at_once = 8;
    // A worker that has slept for so long ends, unless it is the last one.
    std::chrono::milliseconds idle_max{5000};
    // All of its threads, and those that its tasks make, run on this NUMA node.
    int numa_node = kNoNumaNode;
  };
  // What is ready or due waits no longer for busy workers before another one is added.
  static constexpr auto kPatience = std::chrono::milliseconds(10);

  // That of this process, which all who ask for it share. It ends with the last
  // of them. In a simulation each scheduler has its own, and a process that was
  // forked has another one than its parent, whose threads it does not have.
  // std::system_error if it needs threads that there are not.
  //
  // Each NUMA node that is asked for has a pool of its own beside it: a worker runs tasks of many
  // handles, and cannot move from node to node with them.
  static std::shared_ptr<ThreadPool> OfThisProcess(int numa_node = kNoNumaNode);

  // Makes the dispatcher and the first worker; std::system_error if it cannot.
  explicit ThreadPool(const Config& config);
  ThreadPool() : ThreadPool(Config()) {}
  // There are no tasks any more.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The group of this name, which is there as long as somebody has it.
  // `runs_max` counts when it is made.
  std::shared_ptr<Group> GroupOf(const std::string& name, size_t runs_max) LOCKS_EXCLUDED(mutex_);

  struct Counts {
    size_t threads = 0;  // The dispatcher among them.
    size_t tasks = 0;
    uint64_t runs = 0;  // So far.
  };
  Counts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  // Tasks in the order in which they came.
  class Queue {
   public:
    bool empty() const { return first_ == nullptr; }
    size_t size() const { return size_; }
    Task* front() const { return first_; }
    void PushBack(Task* task);
    void Remove(Task* task);
    Task* PopFront();

   private:
    Task* first_ = nullptr;
    Task* last_ = nullptr;
    size_t size_ = 0;
  };
  struct Worker {
    explicit Worker(port::Mutex& mutex) : wakeup(mutex) {}
    port::CondVar wakeup;
    Worker* slept_before = nullptr;  // While it sleeps: the one that fell asleep before it.
    bool called = true;              // To look for work; not yet there.
    bool ended = false;
    port::Thread thread;
  };
  // Those of the same time in the order in which they were set, not by their addresses: a
  // simulation that is repeated does the same again.
  using Times = std::multimap<Clock::time_point, Task*>;

  void Register(Task* task) LOCKS_EXCLUDED(mutex_);
  void Unregister(Task* task) LOCKS_EXCLUDED(mutex_);
  void Wake(Task* task) LOCKS_EXCLUDED(mutex_);
  void Stop(Task* task) LOCKS_EXCLUDED(mutex_);
  // How many runs tasks may have together changes by those of this one.
  void CountRunsMaxLocked(const Task& task, bool more) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The task is to be run: puts it into the queue, unless it is in one, or has all its runs.
  void EnqueueLocked(Task* task, Queue* queue) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetTimeLocked(Task* task, Clock::time_point time) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetTimeLocked(Task* task) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Dispatch() LOCKS_EXCLUDED(mutex_);
  void AwaitCallLocked(Clock::time_point until) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueDueLocked(Clock::time_point now) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has workers come for what there is. Returns when to look again.
  Clock::time_point CallWorkersLocked(Clock::time_point now) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NeedsWorkerLocked(Clock::time_point now) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayAddWorkerLocked(Clock::time_point now) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // std::system_error, std::bad_alloc.
  void AddWorkerLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryAddWorkerLocked(Clock::time_point now) noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: none sleeps.
  bool CallSleeperLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CallDispatcherLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWorkers() LOCKS_EXCLUDED(mutex_);
  std::list<Worker> TakeEndedLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Work(Worker* worker) LOCKS_EXCLUDED(mutex_);
  // Null: there is nothing for another worker. *was_due: it was not woken.
  Task* TakeLocked(bool* was_due) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: the group has all its runs; the task waits for the end of one.
  Task* TakeFromLocked(Queue* queue) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunLocked(Task* task, bool was_due) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRunEndedLocked(Task* task, Clock::time_point again) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: it is to end.
  bool SleepLocked(Worker* worker) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetSleeperLocked(Worker* worker) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;

  mutable port::Mutex mutex_;  // Protects what follows, tasks and groups. Not held during a run.
  port::CondVar dispatcher_wakeup_{mutex_};
  bool dispatcher_called_ GUARDED_BY(mutex_) = false;
  // When it looks again by itself. While it is awake it looks at all there is anyway.
  Clock::time_point dispatcher_until_ GUARDED_BY(mutex_) = Clock::time_point::min();
  bool ending_ GUARDED_BY(mutex_) = false;
  size_t tasks_ GUARDED_BY(mutex_) = 0;
  size_t runs_max_ GUARDED_BY(mutex_) = 0;  // Of all tasks together, within their groups' limits.
  uint64_t runs_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::weak_ptr<Group>> groups_ GUARDED_BY(mutex_);

  Queue ready_ GUARDED_BY(mutex_);  // Were woken.
  Queue due_ GUARDED_BY(mutex_);
  Times times_ GUARDED_BY(mutex_);
  size_t serving_ GUARDED_BY(mutex_) = 0;  // Workers that run what was due.

  std::list<Worker> workers_ GUARDED_BY(mutex_);         // Those that have ended included.
  size_t working_ GUARDED_BY(mutex_) = 0;                // Without those.
  size_t coming_ GUARDED_BY(mutex_) = 0;                 // Were called, and are not yet there.
  Worker* last_asleep_ GUARDED_BY(mutex_) = nullptr;     // Null: none sleeps.
  Clock::time_point add_again_at_ GUARDED_BY(mutex_){};  // The system had no thread.
  // Beyond the first few, workers are at most doubled in kPatience: up to how many, and until when.
  size_t working_max_now_ GUARDED_BY(mutex_) = 0;
  Clock::time_point double_again_at_ GUARDED_BY(mutex_){};

  port::Thread dispatcher_;  // Last: it uses all of the above.
};

class ThreadPool::Group {
 public:
  explicit Group(size_t runs_max) : runs_max_(runs_max) {}

 private:
  friend class ThreadPool;

  // Guarded by the pool's mutex, but for what is constant.
  const size_t runs_max_;
  size_t runs_ = 0;
  size_t tasks_runs_max_ = 0;  // Of its tasks, if there were no limit.
  Queue waiting_;              // Until a run ends.
};

// One kind of work. Thread-safe.
class ThreadPool::Task {
 public:
  // Does what there is to do, and returns when it is to be called again if
  // Wake() is not called before; Clock::time_point::max(): then only. Does not throw.
  using Run = std::function<Clock::time_point()>;

  // `run` is called by up to `runs_max` threads at once, for the first time
  // after the first Wake(). `pool` outlives the task. `group` may be null.
  Task(ThreadPool* pool, size_t runs_max, Run run, std::shared_ptr<Group> group = nullptr);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // A run will begin after this call.
  void Wake() noexcept { pool_->Wake(this); }
  // No run begins any more; returns when none is under way. Idempotent. Not to be called by a run.
  void Stop() { pool_->Stop(this); }
  // For runs that take long.
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

 private:
  friend class ThreadPool;

  ThreadPool* const pool_;
  const size_t runs_max_;
  const Run run_;
  const std::shared_ptr<Group> group_;
  std::atomic<bool> stopping_{false};

  // Guarded by the pool's mutex.
  size_t runs_ = 0;      // Under way.
  bool wanted_ = false;  // A run is to begin.
  Queue* queue_ = nullptr;
  Task* before_ = nullptr;  // In that.
  Task* behind_ = nullptr;
  Clock::time_point queued_at_;
  Times::node_type time_;  // While it has none: room for one.
  Times::iterator timed_;  // While it has one, so that time_ is empty.
  port::CondVar run_ended_;
};

}  // namespace dlsm
