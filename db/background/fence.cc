#include "db/background/fence.h"

#include <cassert>

#include "util/log.h"

namespace dlsm {

void Fence::Join(StallGate* gate) {
  const port::MutexLock lock(mutex_);
  gates_.push_back(gate);
}

void Fence::Raise(const Status& why) {
  assert(why.IsIOFenced());
  const port::MutexLock lock(mutex_);
  if (!status_.ok()) return;
  Log().Error("this handle writes no more: {}", why.message().ToStringView());
  status_ = why;
  raised_.store(true, std::memory_order_release);
  for (StallGate* const gate : gates_) gate->Refuse(why);
}

Status Fence::status() const {
  const port::MutexLock lock(mutex_);
  return status_;
}

}  // namespace dlsm
