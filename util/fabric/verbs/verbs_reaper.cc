#include "util/fabric/verbs/verbs_reaper.h"

#include <utility>

namespace dlsm {

VerbsReaper::~VerbsReaper() {
  {
    const port::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void VerbsReaper::Give(VerbsClient::Remains remains) {
  if (remains.empty()) return;
  const port::MutexLock lock(mutex_);
  waiting_.push_back(std::move(remains));
  changed_.SignalAll();
}

size_t VerbsReaper::waiting() const {
  const port::MutexLock lock(mutex_);
  return waiting_.size();
}

void VerbsReaper::Run() {
  while (true) {
    {
      VerbsClient::Remains next;  // Its destructor keeps the order that assigning to it would not.
      const port::MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait();
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
    }
    const port::MutexLock lock(mutex_);
    waiting_.pop_front();
  }
}

}  // namespace dlsm
