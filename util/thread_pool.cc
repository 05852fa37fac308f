#include "util/thread_pool.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <system_error>
#include <utility>

#include "port/scheduler.h"
#include "port/thread_name.h"
#include "util/log.h"
#include "util/numa.h"
#include "util/out_of_memory.h"
#include "util/shared_instances.h"

namespace dlsm {
namespace {

// Where the system makes no thread it is asked again after this.
constexpr auto kAddAgainAfter = std::chrono::milliseconds(100);

}  // namespace

std::shared_ptr<ThreadPool> ThreadPool::OfThisProcess(int numa_node) {
  static constinit SharedInstances<std::pair<port::Scheduler*, int>, ThreadPool> pools;
  std::shared_ptr<ThreadPool> pool;
  const auto make = [numa_node](std::shared_ptr<ThreadPool>* made) {
    Config config;
    config.numa_node = numa_node;
    *made = std::make_shared<ThreadPool>(config);
    return Status::OK();
  };
  const std::pair key(port::Scheduler::Current(), numa_node);
  pools.Get(key, make, &pool).PermitUncheckedError();  // Cannot fail.
  return pool;
}

// -------- Queues

void ThreadPool::Queue::PushBack(Task* task) {
  assert(task->queue_ == nullptr);
  task->queue_ = this;
  task->before_ = last_;
  task->behind_ = nullptr;
  (last_ == nullptr ? first_ : last_->behind_) = task;
  last_ = task;
  ++size_;
}

void ThreadPool::Queue::Remove(Task* task) {
  assert(task->queue_ == this);
  (task->before_ == nullptr ? first_ : task->before_->behind_) = task->behind_;
  (task->behind_ == nullptr ? last_ : task->behind_->before_) = task->before_;
  task->queue_ = nullptr;
  --size_;
}

ThreadPool::Task* ThreadPool::Queue::PopFront() {
  Task* const task = first_;
  Remove(task);
  return task;
}

// -------- Tasks

ThreadPool::Task::Task(ThreadPool* pool, size_t runs_max, Run run, std::shared_ptr<Group> group)
    : pool_(pool),
      runs_max_(runs_max),
      run_(std::move(run)),
      group_(std::move(group)),
      run_ended_(pool->mutex_) {
  Times room;
  room.emplace(Clock::time_point(), this);
  time_ = room.extract(room.begin());
  pool_->Register(this);
}

ThreadPool::Task::~Task() {
  Stop();
  pool_->Unregister(this);
}

void ThreadPool::Register(Task* task) {
  const port::MutexLock lock(mutex_);
  ++tasks_;
  CountRunsMaxLocked(*task, /*more=*/true);
}

void ThreadPool::Unregister(Task* task) {
  const port::MutexLock lock(mutex_);
  --tasks_;
  CountRunsMaxLocked(*task, /*more=*/false);
}

void ThreadPool::CountRunsMaxLocked(const Task& task, bool more) {
  const size_t change = more ? task.runs_max_ : -task.runs_max_;
  if (task.group_ == nullptr) {
    runs_max_ += change;
    return;
  }
  Group& group = *task.group_;
  runs_max_ -= std::min(group.runs_max_, group.tasks_runs_max_);
  group.tasks_runs_max_ += change;
  runs_max_ += std::min(group.runs_max_, group.tasks_runs_max_);
}

void ThreadPool::Wake(Task* task) {
  const port::MutexLock lock(mutex_);
  if (task->stopping()) return;
  task->wanted_ = true;
  if (task->queue_ == &due_) due_.Remove(task);
  EnqueueLocked(task, &ready_);
  if (ready_.size() <= coming_ || CallSleeperLocked()) return;
  if (working_ < runs_max_) CallDispatcherLocked();
}

void ThreadPool::EnqueueLocked(Task* task, Queue* queue) {
  if (task->queue_ != nullptr || task->runs_ == task->runs_max_) return;
  task->queued_at_ = Clock::now();
  queue->PushBack(task);
}

void ThreadPool::Stop(Task* task) {
  const port::MutexLock lock(mutex_);
  task->stopping_.store(true, std::memory_order_release);
  if (task->queue_ != nullptr) task->queue_->Remove(task);
  ForgetTimeLocked(task);
  while (task->runs_ > 0) task->run_ended_.Wait();
}

void ThreadPool::SetTimeLocked(Task* task, Clock::time_point time) {
  if (task->time_.empty()) {
    if (task->timed_->first <= time) return;
    ForgetTimeLocked(task);
  }
  task->time_.key() = time;
  task->timed_ = times_.insert(std::move(task->time_));
  if (time < dispatcher_until_) CallDispatcherLocked();
}

void ThreadPool::ForgetTimeLocked(Task* task) {
  if (task->time_.empty()) task->time_ = times_.extract(task->timed_);
}

std::shared_ptr<ThreadPool::Group> ThreadPool::GroupOf(const std::string& name, size_t runs_max) {
  const port::MutexLock lock(mutex_);
  std::erase_if(groups_, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<Group>& named = groups_[name];
  std::shared_ptr<Group> group = named.lock();
  if (group == nullptr) named = group = std::make_shared<Group>(runs_max);
  return group;
}

ThreadPool::Counts ThreadPool::counts() const {
  const port::MutexLock lock(mutex_);
  return {.threads = working_ + 1, .tasks = tasks_, .runs = runs_};
}

// -------- The dispatcher

ThreadPool::ThreadPool(const Config& config) : config_(config) {
  {
    const port::MutexLock lock(mutex_);
    AddWorkerLocked();
  }
  try {
    dispatcher_ = port::Thread([this] { Dispatch(); });
  } catch (...) {
    EndWorkers();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  {
    const port::MutexLock lock(mutex_);
    assert(tasks_ == 0);
    ending_ = true;
    CallDispatcherLocked();
  }
  dispatcher_.join();
  EndWorkers();
}

void ThreadPool::EndWorkers() {
  std::list<Worker> workers;
  {
    const port::MutexLock lock(mutex_);
    ending_ = true;
    for (Worker& worker : workers_) worker.wakeup.Signal();
    workers.swap(workers_);
  }
  for (Worker& worker : workers) worker.thread.join();
}

void ThreadPool::Dispatch() {
  port::SetThreadName("dlsm dispatch");
  const ThreadOnNumaNode on_node(config_.numa_node);
  if (!on_node.status().ok()) {
    IfMemoryPermits([&on_node] { Log().Warn("{}", on_node.status().message().ToStringView()); });
  }
  while (true) {
    std::list<Worker> ended;
    {
      const port::MutexLock lock(mutex_);
      if (ending_) return;
      const Clock::time_point now = Clock::now();
      EnqueueDueLocked(now);
      Clock::time_point until = CallWorkersLocked(now);
      if (!times_.empty()) until = std::min(until, times_.begin()->first);
      AwaitCallLocked(until);
      ended = TakeEndedLocked();
    }
    for (Worker& worker : ended) worker.thread.join();
  }
}

void ThreadPool::AwaitCallLocked(Clock::time_point until) {
  dispatcher_until_ = until;
  if (dispatcher_called_) {
    // Between its last wait and this one.
  } else if (until == Clock::time_point::max()) {
    dispatcher_wakeup_.Wait();
  } else {
    static_cast<void>(dispatcher_wakeup_.WaitUntil(until));
  }
  dispatcher_called_ = false;
  dispatcher_until_ = Clock::time_point::min();
}

void ThreadPool::CallDispatcherLocked() {
  dispatcher_called_ = true;
  dispatcher_wakeup_.Signal();
}

void ThreadPool::EnqueueDueLocked(Clock::time_point now) {
  while (!times_.empty() && times_.begin()->first <= now) {
    Task* const task = times_.begin()->second;
    ForgetTimeLocked(task);
    task->wanted_ = true;
    EnqueueLocked(task, &due_);
  }
}

ThreadPool::Clock::time_point ThreadPool::CallWorkersLocked(Clock::time_point now) {
  while (NeedsWorkerLocked(now)) {
    if (CallSleeperLocked()) continue;
    if (!MayAddWorkerLocked(now) || !TryAddWorkerLocked(now)) break;
  }
  return ready_.empty() && due_.empty() ? Clock::time_point::max() : now + kPatience;
}

bool ThreadPool::NeedsWorkerLocked(Clock::time_point now) const {
  if (ready_.size() > coming_) return true;
  if (due_.empty() || coming_ > 0) return false;
  return serving_ == 0 || now - due_.front()->queued_at_ >= kPatience;
}

bool ThreadPool::MayAddWorkerLocked(Clock::time_point now) {
  if (working_ >= runs_max_ || now < add_again_at_) return false;
  if (working_ < config_.workers_at_once) return true;
  const auto has_waited = [now](const Queue& queue) {
    return !queue.empty() && now - queue.front()->queued_at_ >= kPatience;
  };
  if (!has_waited(ready_) && !has_waited(due_)) return false;
  if (now >= double_again_at_) {
    working_max_now_ = 2 * working_;
    double_again_at_ = now + kPatience;
  }
  return working_ < working_max_now_;
}

bool ThreadPool::TryAddWorkerLocked(Clock::time_point now) noexcept {
  try {
    AddWorkerLocked();
    return true;
  } catch (const std::system_error& error) {
    IfMemoryPermits([&error] {
      Log().Warn(
          "background work waits for others': the system makes no more "
          "threads: {}",
          error.what());
    });
  } catch (const std::bad_alloc&) {
  }
  add_again_at_ = now + kAddAgainAfter;
  return false;
}

void ThreadPool::AddWorkerLocked() {
  Worker& worker = workers_.emplace_back(mutex_);
  try {
    worker.thread = port::Thread([this, &worker] { Work(&worker); });
  } catch (...) {
    workers_.pop_back();
    throw;
  }
  ++working_;
  ++coming_;
}

std::list<ThreadPool::Worker> ThreadPool::TakeEndedLocked() {
  std::list<Worker> ended;
  for (auto next = workers_.begin(); next != workers_.end();) {
    const auto each = next++;
    if (each->ended) ended.splice(ended.end(), workers_, each);
  }
  return ended;
}

// -------- Workers

bool ThreadPool::CallSleeperLocked() {
  Worker* const worker = last_asleep_;
  if (worker == nullptr) return false;
  last_asleep_ = worker->slept_before;
  worker->called = true;
  ++coming_;
  worker->wakeup.Signal();
  return true;
}

void ThreadPool::Work(Worker* worker) {
  port::SetThreadName("dlsm work");
  const ThreadOnNumaNode on_node(config_.numa_node);
  const port::MutexLock lock(mutex_);
  do {
    worker->called = false;
    --coming_;
    bool was_due;
    while (Task* const task = TakeLocked(&was_due)) RunLocked(task, was_due);
  } while (SleepLocked(worker));
  worker->ended = true;
  --working_;
  if (!ending_) CallDispatcherLocked();  // It joins this thread.
}

ThreadPool::Task* ThreadPool::TakeLocked(bool* was_due) {
  *was_due = false;
  while (!ready_.empty()) {
    if (Task* const task = TakeFromLocked(&ready_); task != nullptr) return task;
  }
  *was_due = true;
  while (!due_.empty() && (serving_ == 0 || Clock::now() - due_.front()->queued_at_ >= kPatience)) {
    if (Task* const task = TakeFromLocked(&due_); task != nullptr) return task;
  }
  return nullptr;
}

ThreadPool::Task* ThreadPool::TakeFromLocked(Queue* queue) {
  Task* const task = queue->PopFront();
  if (task->group_ == nullptr || task->group_->runs_ < task->group_->runs_max_) return task;
  task->group_->waiting_.PushBack(task);
  return nullptr;
}

void ThreadPool::RunLocked(Task* task, bool was_due) {
  // What its runs know of the time, the next one finds out again.
  if (task->runs_ == 0) ForgetTimeLocked(task);
  task->wanted_ = false;
  ++task->runs_;
  if (task->group_ != nullptr) ++task->group_->runs_;
  if (was_due) ++serving_;
  ++runs_;
  mutex_.Unlock();
  const Clock::time_point again = OrEndForLackOfMemory([task] { return task->run_(); });
  mutex_.Lock();
  if (was_due) --serving_;
  NoteRunEndedLocked(task, again);
}

void ThreadPool::NoteRunEndedLocked(Task* task, Clock::time_point again) {
  --task->runs_;
  if (Group* const group = task->group_.get(); group != nullptr) {
    --group->runs_;
    if (!group->waiting_.empty()) ready_.PushBack(group->waiting_.PopFront());
  }
  if (task->stopping()) {
    task->run_ended_.SignalAll();  // Its owner may destroy it now.
    return;
  }
  if (task->wanted_) EnqueueLocked(task, &ready_);
  if (again != Clock::time_point::max()) SetTimeLocked(task, again);
}

bool ThreadPool::SleepLocked(Worker* worker) {
  if (ending_) return false;
  worker->slept_before = last_asleep_;
  last_asleep_ = worker;
  const Clock::time_point until = Clock::now() + config_.idle_max;
  while (!worker->called && !ending_) {
    if (working_ == 1) {
      worker->wakeup.Wait();
    } else if (!worker->wakeup.WaitUntil(until) && !worker->called && working_ > 1) {
      break;
    }
  }
  if (worker->called) return true;
  ForgetSleeperLocked(worker);
  return false;
}

void ThreadPool::ForgetSleeperLocked(Worker* worker) {
  Worker** at = &last_asleep_;
  while (*at != worker) at = &(*at)->slept_before;
  *at = worker->slept_before;
}

}  // namespace dlsm
