// One queue pair for several threads: what a connection hands out when it has as many queue pairs
// as it may have. A mutex makes the threads take turns, for as long as one of them waits.
#pragma once

#include <functional>
#include <memory>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Thread-safe.
class VerbsSharedCore {
 public:
  explicit VerbsSharedCore(std::unique_ptr<QueuePair> inner) : inner_(std::move(inner)) {}

  bool closed() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return inner_->closed();
  }
  template <typename Call>
  auto Do(Call call) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return call(*inner_);
  }

 private:
  mutable port::Mutex mutex_;  // Protects the queue pair; held while a thread waits.
  const std::unique_ptr<QueuePair> inner_ PT_GUARDED_BY(mutex_);
};

// One thread's share. Its tickets are those of the queue pair behind it: they ascend, with gaps.
std::unique_ptr<QueuePair> ShareQueuePair(std::shared_ptr<VerbsSharedCore> core);

}  // namespace dlsm
