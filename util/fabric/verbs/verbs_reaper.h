// A thread that destroys what it is given: taking down queue pairs by the hundred and unpinning
// whole regions takes longer than who revokes a client's access may wait.
#pragma once

#include <cstddef>
#include <deque>

#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/verbs/verbs_client.h"

namespace dlsm {

// Thread-safe.
class VerbsReaper {
 public:
  VerbsReaper() : thread_([this] { Run(); }) {}
  // Returns when everything has been destroyed.
  ~VerbsReaper();

  void Give(VerbsClient::Remains remains) LOCKS_EXCLUDED(mutex_);
  // Given and not yet destroyed, what is being destroyed included.
  size_t waiting() const LOCKS_EXCLUDED(mutex_);

 private:
  void Run() LOCKS_EXCLUDED(mutex_);

  mutable port::Mutex mutex_;  // Protects what follows.
  port::CondVar changed_{mutex_};
  std::deque<VerbsClient::Remains> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;

  port::Thread thread_;
};

}  // namespace dlsm
