// The thread of Env::Schedule().
#pragma once

#include <deque>

#include "port/mutex.h"
#include "port/thread.h"

namespace dlsm::compat {

// Runs functions one after the other in a thread of its own, which begins with the first and never
// ends: so this is never destroyed. Thread-safe.
class BackgroundQueue {
 public:
  void Add(void (*function)(void*), void* argument) LOCKS_EXCLUDED(mutex_);

 private:
  struct Call {
    void (*function)(void*);
    void* argument;
  };

  void Run() LOCKS_EXCLUDED(mutex_);
  Call Next() LOCKS_EXCLUDED(mutex_);

  port::Mutex mutex_;
  port::CondVar added_{mutex_};
  std::deque<Call> calls_ GUARDED_BY(mutex_);
  port::Thread thread_ GUARDED_BY(mutex_);
};

// Calls function(argument) in a thread that ends with it. Returns false if there can be no thread.
bool RunInNewThread(void (*function)(void*), void* argument);

}  // namespace dlsm::compat
