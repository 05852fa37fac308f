// One queue pair for several threads: what a connection hands out when it has as many queue pairs
// as it may have. A mutex makes the threads take turns; one that waits lets the
// others in between its polls.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/fabric.h"
#include "util/fabric/verbs/verbs_datapath.h"

namespace dlsm {

// Thread-safe.
class VerbsSharedCore {
 public:
  explicit VerbsSharedCore(std::unique_ptr<VerbsQueuePair> inner) : inner_(std::move(inner)) {}

  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  template <typename Call>
  auto Do(Call call) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    const NoteClosed note(*this);
    return call(*inner_);
  }

 private:
  // When a call is over.
  class NoteClosed {
   public:
    explicit NoteClosed(VerbsSharedCore& core) : core_(core) {}
    ~NoteClosed() {
      core_.mutex_.AssertHeld();
      // Tells nothing but itself: whoever acts on it takes the mutex, or another queue pair.
      if (core_.inner_->closed()) core_.closed_.store(true, std::memory_order_relaxed);
    }

   private:
    VerbsSharedCore& core_;
  };

  std::atomic<bool> closed_{false};
  mutable port::Mutex mutex_;  // Protects the queue pair.
  const std::unique_ptr<VerbsQueuePair> inner_ PT_GUARDED_BY(mutex_);
};

// One thread's share. Its tickets are those of the queue pair behind it: they ascend, with gaps.
std::unique_ptr<QueuePair> ShareQueuePair(std::shared_ptr<VerbsSharedCore> core);

}  // namespace dlsm
