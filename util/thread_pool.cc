#include "util/thread_pool.h"

#include <cassert>
#include <utility>

#include "port/thread.h"
#include "port/thread_name.h"

namespace dlsm {

ThreadPool::ThreadPool(const std::string& name, size_t threads, size_t queued_max)
    : queued_max_(queued_max) {
  port::MutexLock lock(mutex_);
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, thread_name = name + "-" + std::to_string(i)] {
      port::SetThreadName(thread_name);
      RunTasks();
    });
  }
}

bool ThreadPool::Submit(std::function<void()> task) {
  assert(task != nullptr);
  port::MutexLock lock(mutex_);
  if (stopping_ || queue_.size() >= queued_max_) return false;
  queue_.push_back(std::move(task));
  wanted_.Signal();
  return true;
}

bool ThreadPool::WaitUntilIdle(Deadline deadline) {
  port::MutexLock lock(mutex_);
  while (!queue_.empty() || running_ > 0) {
    if (!idle_.WaitUntil(deadline.time_point()) && (!queue_.empty() || running_ > 0)) {
      return false;
    }
  }
  return true;
}

void ThreadPool::Shutdown() {
  std::vector<port::Thread> threads;
  {
    port::MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    wanted_.SignalAll();
  }
  for (port::Thread& thread : threads) thread.join();
}

void ThreadPool::RunTasks() {
  port::MutexLock lock(mutex_);
  while (true) {
    while (queue_.empty() && !stopping_) wanted_.Wait();
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    mutex_.Unlock();
    task();
    task = nullptr;  // What it captured may take locks in its destructor.
    mutex_.Lock();
    --running_;
    if (queue_.empty() && running_ == 0) idle_.SignalAll();
  }
}

}  // namespace dlsm
