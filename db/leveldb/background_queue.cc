#include "db/leveldb/background_queue.h"

#include <pthread.h>

#include <memory>
#include <utility>

namespace dlsm::compat {

void BackgroundQueue::Add(void (*function)(void*), void* argument) {
  const port::MutexLock lock(mutex_);
  calls_.push_back({function, argument});
  if (!thread_.joinable()) thread_ = port::Thread([this] { Run(); });
  added_.Signal();
}

BackgroundQueue::Call BackgroundQueue::Next() {
  const port::MutexLock lock(mutex_);
  while (calls_.empty()) added_.Wait();
  const Call call = calls_.front();
  calls_.pop_front();
  return call;
}

void BackgroundQueue::Run() {
  while (true) {
    const Call call = Next();
    call.function(call.argument);
  }
}

bool RunInNewThread(void (*function)(void*), void* argument) {
  using Call = std::pair<void (*)(void*), void*>;
  auto call = std::make_unique<Call>(function, argument);
  // Not port::Thread: nobody joins it, and it is the program's, not the database's.
  pthread_t thread{};
  const auto run = [](void* given) -> void* {
    const std::unique_ptr<Call> own(static_cast<Call*>(given));
    own->first(own->second);
    return nullptr;
  };
  if (::pthread_create(&thread, nullptr, run, call.get()) != 0) return false;
  static_cast<void>(call.release());
  ::pthread_detach(thread);
  return true;
}

}  // namespace dlsm::compat
