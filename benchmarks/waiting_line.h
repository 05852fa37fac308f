// Shows that something goes on that does not say how far it is: a call for the whole database, or
// the work in the background that is left after a workload.
#pragma once

#include <string>
#include <thread>

#include "benchmarks/engine.h"
#include "benchmarks/run_threads.h"
#include "dLSM/status.h"
#include "port/mutex.h"

namespace dlsm::bench {

// While it exists, prints for how long it has, as often as a ProgressLine would.
class WaitingLine {
 public:
  // If not `enabled` it prints nothing, and has no thread.
  WaitingLine(const std::string& name, bool enabled);
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

 private:
  void Run() LOCKS_EXCLUDED(mutex_);

  ProgressLine line_;  // The thread's, while there is one.

  port::Mutex mutex_;
  port::CondVar ended_{mutex_};
  bool end_ GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

// Waits until no flush and no merge is due that `name` has left behind.
Status AwaitQuiet(Engine& engine, const std::string& name, bool progress);

}  // namespace dlsm::bench
