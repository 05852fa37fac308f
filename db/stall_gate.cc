#include "db/stall_gate.h"

#include <algorithm>
#include <string>

namespace dlsm {
namespace {

Ticker StallTicker(uint32_t reasons) {
  if ((reasons & 1u << static_cast<uint32_t>(StallReason::kMemory)) != 0) {
    return Ticker::kStallMicrosMemory;
  }
  if ((reasons & 1u << static_cast<uint32_t>(StallReason::kLevel0)) != 0) {
    return Ticker::kStallMicrosLevel0;
  }
  return Ticker::kStallMicrosMemtables;
}

}  // namespace

void StallGate::Set(StallReason reason, bool closed) {
  port::MutexLock lock(mutex_);
  const uint32_t before = reasons_.load(std::memory_order_relaxed);
  const uint32_t after = closed ? before | Bit(reason) : before & ~Bit(reason);
  if (after == before) return;
  reasons_.store(after, std::memory_order_release);
  if (!closed) changed_.SignalAll();
}

void StallGate::NoteProgress() {
  port::MutexLock lock(mutex_);
  last_progress_ = std::chrono::steady_clock::now();
  error_ = Status::OK();
}

void StallGate::NoteError(const Status& error) {
  port::MutexLock lock(mutex_);
  error_ = error;
}

void StallGate::Shut() {
  port::MutexLock lock(mutex_);
  reasons_.fetch_or(kShut, std::memory_order_release);
  changed_.SignalAll();
}

bool StallGate::MayPass(bool only_deletes) const {
  const uint32_t reasons = reasons_.load(std::memory_order_acquire);
  return reasons == 0 || (only_deletes && reasons == Bit(StallReason::kMemory));
}

Status StallGate::Wait(bool only_deletes) {
  if (MayPass(only_deletes)) return Status::OK();
  const auto started = std::chrono::steady_clock::now();
  const Ticker ticker = StallTicker(reasons_.load(std::memory_order_relaxed));
  Status status;
  {
    port::MutexLock lock(mutex_);
    while (!MayPass(only_deletes)) {
      const auto give_up = std::max(started, last_progress_) + timeout_;
      const bool shut = (reasons_.load(std::memory_order_relaxed) & kShut) != 0;
      if (shut || std::chrono::steady_clock::now() >= give_up) {
        status = GiveUp();
        break;
      }
      changed_.WaitUntil(give_up);
    }
  }
  const auto waited = std::chrono::steady_clock::now() - started;
  statistics_->Add(Ticker::kStalls);
  statistics_->Add(
      ticker,
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count()));
  return status;
}

Status StallGate::GiveUp() const {
  const uint32_t reasons = reasons_.load(std::memory_order_relaxed);
  if ((reasons & kShut) != 0) return Status::Aborted("the database is being closed");
  std::string why;
  if ((reasons & Bit(StallReason::kMemory)) != 0) {
    why = "the memory node has no room for more data";
  } else if ((reasons & Bit(StallReason::kLevel0)) != 0) {
    why = "merges out of level 0 make no progress";
  } else {
    why = "flushes of memtables make no progress";
  }
  if (!error_.ok()) why += ": " + error_.message().ToString();
  return error_.IsIOError() ? Status::IOError("write refused", why)
                            : Status::Busy("write refused", why);
}

}  // namespace dlsm
