#include "db/background/stall_gate.h"

#include <algorithm>
#include <string>

#include "port/clock.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr std::array<Ticker, kStallReasonCount> kTickers = {
    Ticker::kStallMicrosMemtables, Ticker::kStallMicrosLevel0, Ticker::kStallMicrosComponents,
    Ticker::kStallMicrosMemory, Ticker::kStallMicrosSlowed};

// Of several, the one that is hardest to mend.
StallReason MainReason(uint32_t reasons) {
  for (const StallReason reason :
       {StallReason::kMemory, StallReason::kComponents, StallReason::kLevel0}) {
    if ((reasons & 1u << static_cast<uint32_t>(reason)) != 0) return reason;
  }
  return StallReason::kMemtables;
}

// Of the refusal that `error` has caused: Busy where there is nothing to be done but to try again.
Status::Code CodeFor(const Status& error) {
  if (error.ok() || error.IsBusy() || error.IsTimedOut() || error.IsAborted()) {
    return Status::Code::kBusy;
  }
  // That there is no such session or database is not that there is no such key.
  return error.IsIOError() || error.IsNotFound() ? Status::Code::kIOError : error.code();
}

Status TooLate(StallReason reason) {
  return Status::TimedOut(
      "the deadline of the write has passed while it waited: nothing is written",
      std::string("stall: ") + StallReasonName(reason));
}

}  // namespace

const char* StallReasonName(StallReason reason) {
  constexpr std::array<const char*, kStallReasonCount> kNames = {"memtables", "level0",
                                                                 "components", "memory", "slowed"};
  return kNames[static_cast<size_t>(reason)];
}

void StallGate::Set(StallReason reason, bool closed) {
  port::MutexLock lock(mutex_);
  const uint32_t before = reasons_.load(std::memory_order_relaxed);
  const uint32_t after = closed ? before | Bit(reason) : before & ~Bit(reason);
  if (after == before) return;
  reasons_.store(after, std::memory_order_release);
  if (!closed) changed_.SignalAll();
}

void StallGate::SetPace(double bytes_per_second) {
  pacer_.SetRate(bytes_per_second, port::Clock::now());
  Set(StallReason::kSlowed, bytes_per_second > 0);
}

void StallGate::NoteProgress() {
  port::MutexLock lock(mutex_);
  last_progress_ = port::Clock::now();
  error_ = Status::OK();
  error_.PermitUncheckedError();
}

void StallGate::NoteError(const Status& error) {
  port::MutexLock lock(mutex_);
  error_ = error;
  error_.PermitUncheckedError();  // Writers are told, if there are any.
}

void StallGate::Refuse(const Status& error) {
  port::MutexLock lock(mutex_);
  refusal_ = error;
  refusal_.PermitUncheckedError();
  reasons_.fetch_or(kRefusing, std::memory_order_release);
  changed_.SignalAll();
}

Status StallGate::refusal() const {
  if ((reasons_.load(std::memory_order_acquire) & kRefusing) == 0) return Status::OK();
  port::MutexLock lock(mutex_);
  return refusal_;
}

void StallGate::Shut() {
  port::MutexLock lock(mutex_);
  reasons_.fetch_or(kShut, std::memory_order_release);
  changed_.SignalAll();
}

bool StallGate::MayPass(bool only_deletes, uint32_t reasons) {
  const uint32_t closing = reasons & ~kPaced;
  return closing == 0 || (only_deletes && closing == Bit(StallReason::kMemory));
}

Status StallGate::Wait(bool only_deletes, uint64_t bytes, TimePoint until) {
  DLSM_RETURN_IF_ERROR(WaitForOpening(only_deletes, until));
  return KeepPace(bytes, until);
}

Status StallGate::PassAtOnce(bool only_deletes, uint64_t bytes) {
  const Share share{this, only_deletes, bytes};
  size_t refused_by;
  return PassAllAtOnce({&share, 1}, &refused_by);
}

// Nothing is taken of any pace before all gates have been looked at. Who writes in between may
// leave something owed to the next ones, as always.
Status StallGate::PassAllAtOnce(std::span<const Share> shares, size_t* refused_by) {
  const auto now = port::Clock::now();
  for (size_t i = 0; i < shares.size(); ++i) {
    *refused_by = i;
    DLSM_RETURN_IF_ERROR(shares[i].gate->CheckOpenNow(shares[i].only_deletes, now));
  }
  for (const Share& share : shares) share.gate->pacer_.Take(share.bytes, now);
  return Status::OK();
}

Status StallGate::CheckOpenNow(bool only_deletes, port::Clock::time_point now) {
  const uint32_t reasons = reasons_.load(std::memory_order_acquire);
  const bool is_open = MayPass(only_deletes, reasons);
  if (is_open && !pacer_.HasToWait(now)) return Status::OK();
  if (!is_open && (reasons & (kShut | kRefusing)) != 0) {
    port::MutexLock lock(mutex_);
    return GiveUp();
  }
  last_refused_.store(now, std::memory_order_relaxed);
  statistics_->Add(Ticker::kWritesNotWaiting);
  const StallReason reason = is_open ? StallReason::kSlowed : MainReason(reasons);
  return Status::Busy("write refused: it would have to wait, and is not to (no_slowdown)",
                      std::string("stall: ") + StallReasonName(reason));
}

Status StallGate::WaitForOpening(bool only_deletes, TimePoint until) {
  if (MayPass(only_deletes)) return Status::OK();
  if ((reasons_.load(std::memory_order_acquire) & kRefusing) != 0) {
    port::MutexLock lock(mutex_);
    return refusal_;
  }
  const auto started = port::Clock::now();
  const StallReason reason = MainReason(reasons_.load(std::memory_order_relaxed));
  Status status;
  {
    port::MutexLock lock(mutex_);
    bool gives_up = false;
    ++waiting_;
    while (!MayPass(only_deletes)) {
      const TimePoint give_up = std::max(started, last_progress_) + timeout_;
      const bool ended = (reasons_.load(std::memory_order_relaxed) & (kShut | kRefusing)) != 0;
      const TimePoint now = port::Clock::now();
      gives_up = ended || now >= std::min(give_up, until);
      if (gives_up) {
        status = !ended && now < give_up ? TooLate(reason) : GiveUp();
        break;
      }
      changed_.WaitUntil(std::min(give_up, until));
    }
    --waiting_;
  }
  Count(reason, started);
  return status;
}

Status StallGate::KeepPace(uint64_t bytes, TimePoint until) {
  const auto started = port::Clock::now();
  return Sleep(started, pacer_.Take(bytes, started), until);
}

// A write that gives up has taken its part of the pace all the same: it may come back.
Status StallGate::Sleep(TimePoint started, std::chrono::nanoseconds duration, TimePoint until) {
  if (duration.count() == 0) return Status::OK();
  Status status;
  {
    port::MutexLock lock(mutex_);
    ++waiting_;
    const TimePoint end = started + duration;
    for (TimePoint now = started; now < end; now = port::Clock::now()) {
      if (now >= until) {
        status = TooLate(StallReason::kSlowed);
        break;
      }
      if ((reasons_.load(std::memory_order_relaxed) & (kShut | kRefusing)) != 0) {
        status = GiveUp();
        break;
      }
      changed_.WaitUntil(std::min(end, until));
    }
    --waiting_;
  }
  Count(StallReason::kSlowed, started);
  return status;
}

// Sleeps once, however many shards are slowed down, and not before all are open. Who waits for one
// gate does not see another close behind him, so all are looked at again; but somebody has to go at
// last where gates close all the time, and who is through may find them closed anyway.
Status StallGate::WaitForAll(std::span<const Share> shares, TimePoint until, size_t* refused_by) {
  constexpr int kLooksMax = 4;
  DLSM_RETURN_IF_ERROR(WaitForOpenings(shares, until, refused_by));
  DLSM_RETURN_IF_ERROR(KeepSlowestPace(shares, until, refused_by));
  for (int look = 0; look < kLooksMax; ++look) {
    const bool all_open = std::all_of(shares.begin(), shares.end(), [](const Share& share) {
      return share.gate->MayPass(share.only_deletes);
    });
    if (all_open) break;
    DLSM_RETURN_IF_ERROR(WaitForOpenings(shares, until, refused_by));
  }
  return Status::OK();
}

Status StallGate::WaitForOpenings(std::span<const Share> shares, TimePoint until,
                                  size_t* refused_by) {
  for (size_t i = 0; i < shares.size(); ++i) {
    *refused_by = i;
    DLSM_RETURN_IF_ERROR(shares[i].gate->WaitForOpening(shares[i].only_deletes, until));
  }
  return Status::OK();
}

// Each shard's writers owe what the write puts there.
Status StallGate::KeepSlowestPace(std::span<const Share> shares, TimePoint until,
                                  size_t* refused_by) {
  const auto started = port::Clock::now();
  size_t slowest = 0;
  std::chrono::nanoseconds longest{};
  for (size_t i = 0; i < shares.size(); ++i) {
    const std::chrono::nanoseconds wait = shares[i].gate->pacer_.Take(shares[i].bytes, started);
    if (wait <= longest) continue;
    slowest = i;
    longest = wait;
  }
  *refused_by = slowest;
  return shares[slowest].gate->Sleep(started, longest, until);
}

void StallGate::Count(StallReason reason, port::Clock::time_point started) {
  const uint64_t micros = port::MicrosecondsSince(started);
  statistics_->Add(Ticker::kStalls);
  statistics_->Add(kTickers[static_cast<size_t>(reason)], micros);
  port::MutexLock lock(mutex_);
  StallTotal& total = totals_[static_cast<size_t>(reason)];
  ++total.count;
  total.micros += micros;
  total.longest_micros = std::max(total.longest_micros, micros);
}

bool StallGate::somebody_waits() const {
  const auto last_refused = last_refused_.load(std::memory_order_relaxed);
  if (port::Clock::now() - last_refused < std::chrono::milliseconds(100)) return true;
  port::MutexLock lock(mutex_);
  return waiting_ > 0;
}

StallTotals StallGate::totals() const {
  port::MutexLock lock(mutex_);
  return totals_;
}

Status StallGate::GiveUp() const {
  const uint32_t reasons = reasons_.load(std::memory_order_relaxed);
  if ((reasons & kRefusing) != 0) return refusal_;
  if ((reasons & kShut) != 0) return Status::Aborted("the database is being closed");
  std::string why;
  if ((reasons & Bit(StallReason::kMemory)) != 0) {
    why = "the memory node has no room for more data";
  } else if ((reasons & Bit(StallReason::kComponents)) != 0) {
    why = "merges make no progress, and there are as many sorted runs as there may be";
  } else if ((reasons & Bit(StallReason::kLevel0)) != 0) {
    why = "merges out of level 0 make no progress";
  } else {
    why = "flushes of memtables make no progress";
  }
  why += error_.ok() ? "; is the memory node overloaded, or its network down?"
                     : ": " + error_.message().ToString();
  return Status::FromCode(CodeFor(error_), "write refused: " + why);
}

}  // namespace dlsm
