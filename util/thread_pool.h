// Threads that run tasks in the order in which they were submitted.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"

namespace dlsm {

// Thread-safe. Tasks may submit tasks.
class ThreadPool {
 public:
  // Threads are called "<name>-<index>". At most `queued_max` tasks wait.
  ThreadPool(const std::string& name, size_t threads, size_t queued_max);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { Shutdown(); }

  // False, and the task is not taken, if too many wait already or the pool is shut down.
  [[nodiscard]] bool Submit(std::function<void()> task) LOCKS_EXCLUDED(mutex_);

  // Until no task waits or runs. False if that was not so before the deadline.
  [[nodiscard]] bool WaitUntilIdle(Deadline deadline) LOCKS_EXCLUDED(mutex_);

  // Takes no more tasks, runs those that wait, and joins the threads. Not from a task. Whoever
  // needs it to be quick makes the tasks notice.
  void Shutdown() LOCKS_EXCLUDED(mutex_);

 private:
  void RunTasks() LOCKS_EXCLUDED(mutex_);

  const size_t queued_max_;

  port::Mutex mutex_;
  port::CondVar wanted_{mutex_};  // A task came, or it is time to stop.
  port::CondVar idle_{mutex_};    // No task waits or runs.
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  size_t running_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<port::Thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
