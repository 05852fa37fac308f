// Takes one-sided access away from clients, on a thread of its own: that waits for fabric threads,
// and for a device to unpin what it had registered.
//
// What has failed is tried again for as long as the memory node lives, less and less often.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "port/thread.h"

namespace dlsm {

// Thread-safe.
class AccessRevoker {
 public:
  using Clock = port::Clock;
  // Takes away what a data token gives access to. OK: it is certain that nothing which a client has
  // asked for with that token can take effect any more.
  using CutOff = std::function<Status(const std::string& token)>;
  // Called after each attempt until one has been OK; Aborted is the last one too: nothing more will
  // be tried. One that throws std::bad_alloc has failed, whatever it was told, and must have
  // changed nothing. Not under any lock.
  using Outcome = std::function<void(const Status& status)>;

  struct Statistics {
    uint64_t revocations = 0;  // Confirmed.
    uint64_t failures = 0;     // Attempts that were not.
    uint64_t pending = 0;
  };

  // Between two attempts: doubled from the first to the last.
  static constexpr std::chrono::milliseconds kRetryDelayMin{100};
  static constexpr std::chrono::milliseconds kRetryDelayMax{5000};

  AccessRevoker();
  ~AccessRevoker();

  // Until it is set, there is nothing that could be taken away.
  void SetCutOff(CutOff cut_off) LOCKS_EXCLUDED(mutex_);
  void Revoke(std::vector<std::string> tokens, Outcome outcome) LOCKS_EXCLUDED(mutex_);
  // When it returns, the CutOff is not called any more, and all outcomes are told.
  void Stop() LOCKS_EXCLUDED(mutex_);

  Statistics statistics() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    std::vector<std::string> tokens;  // Those still to be revoked.
    Outcome outcome;
    Clock::time_point due;
    std::chrono::milliseconds delay = kRetryDelayMin;
  };

  void Run() LOCKS_EXCLUDED(mutex_);
  // The job that is due, once there is one. False: it is time to stop.
  bool NextJob(Job* job) LOCKS_EXCLUDED(mutex_);
  static Status Try(const CutOff& cut_off, Job* job);

  mutable port::Mutex mutex_;  // Protects what follows.
  port::CondVar changed_{mutex_};
  CutOff cut_off_ GUARDED_BY(mutex_);
  std::vector<Job> jobs_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;  // One more job is being tried.
  bool stopping_ GUARDED_BY(mutex_) = false;
  Statistics statistics_ GUARDED_BY(mutex_);

  port::Thread thread_;  // Last: it uses all of the above.
};

}  // namespace dlsm
