// How threads take turns at a step of the log that one of them does for all.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "db/log/write_log.h"
#include "port/clock.h"

namespace dlsm {

// The way to the log node may be new again after a failure: what has not arrived is done once more.
// The frames are the same, and go where they were to go.
template <typename Reached, typename Work>
Status WriteLog::AwaitStep(Step step, const Reached& reached, const Work& work) {
  constexpr auto kPauseAfterFailure = std::chrono::milliseconds(10);
  if (reached()) return Status::OK();
  const Deadline deadline = Deadline::In(config_.timeout);
  Status status;
  {
    const port::MutexLock lock(mutex_);
    ++TurnLocked(step).waiting;
    ++TurnLocked(step).waits;
  }
  while (TakeTurn(step, reached, deadline, &status)) {
    status = work(deadline);
    if (status.IsIOFenced()) Fail(status);
    EndTurn(step);
    if (!status.ok() && !failed_.load(std::memory_order_acquire)) {
      port::SleepFor(kPauseAfterFailure);
    }
  }
  const port::MutexLock lock(mutex_);
  --TurnLocked(step).waiting;
  return status;
}

template <typename Reached>
bool WriteLog::TakeTurn(Step step, const Reached& reached, Deadline deadline, Status* status) {
  const Status last = std::exchange(*status, Status::OK());
  const port::MutexLock lock(mutex_);
  Turn& turn = TurnLocked(step);
  while (!reached()) {
    if (!failure_.ok()) {
      *status = FailureLocked();
      return false;
    }
    if (deadline.Passed()) {
      *status = !last.ok() ? Named(last)
                           : Status::TimedOut("the log at " + config_.node + " is too slow",
                                              "is the memory node overloaded?");
      return false;
    }
    if (!turn.taken) {
      turn.taken = true;
      turn.served += turn.waiting;
      turn.largest = std::max(turn.largest, turn.waiting);
      return true;
    }
    changed_.WaitUntil(deadline.time_point());
  }
  return false;
}

inline void WriteLog::EndTurn(Step step) {
  const port::MutexLock lock(mutex_);
  TurnLocked(step).taken = false;
  changed_.SignalAll();
}

}  // namespace dlsm
