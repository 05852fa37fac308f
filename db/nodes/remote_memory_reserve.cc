// What a database keeps of its remote memory for when the memory node is full: the part of
// RemoteMemory that takes it, and gives it back.
#include <algorithm>
#include <utility>
#include <vector>

#include "db/nodes/flush_room.h"
#include "db/nodes/remote_memory.h"

namespace dlsm {
namespace {

// A reserve is not refilled by smaller pieces, nor by more of them at a time.
constexpr uint64_t kReservePieceMin = uint64_t{16} << 10;
constexpr int kRefillGrantsMax = 64;
// What tables have left of it may be too little for a record, of which thousands of pieces add up.
// Smaller ones go back, where they become parts of larger ones.
constexpr uint64_t kCrumbBytes = uint64_t{4} << 10;

}  // namespace

void RemoteMemory::GrowReserve(uint64_t bytes) {
  port::MutexLock lock(mutex_);
  const uint64_t wanted = std::min(bytes, config_.reserve_bytes);
  if (wanted <= reserve_wanted_) return;
  reserve_wanted_ = wanted;
  refill_ = Status::Code::kOk;
}

void RemoteMemory::NoteUnfilled() {
  port::MutexLock lock(mutex_);
  if (MissingLocked() > 0 && full_reason_.IsBusy()) full_.store(true, std::memory_order_relaxed);
}

RemoteMemory::Covered RemoteMemory::covered() const {
  port::MutexLock lock(mutex_);
  const uint64_t held = TotalBytes(reserve_);
  const bool largest = held >= config_.reserve_bytes;
  const bool answered = refill_ == Status::Code::kOk || refill_ == Status::Code::kBusy;
  if (!answered || (largest && !config_.reserve_is_limited)) {
    return {.data = UINT64_MAX, .deletions = UINT64_MAX};
  }
  return {.data = largest ? MemtablesCoveredByLargest(held) : MemtablesCoveredBy(held),
          .deletions = DeletionsCoveredBy(held),
          .limited = largest};
}

bool RemoteMemory::reserve_refused() const {
  port::MutexLock lock(mutex_);
  return refill_ == Status::Code::kBusy;
}

bool RemoteMemory::RefillReserve() {
  uint64_t missing;
  bool replaces;
  {
    port::MutexLock lock(mutex_);
    ReleaseCrumbsLocked();
    missing = MissingLocked();
    if (missing > 0 && full()) {
      for (const RemoteSpan& rest : granted_) PutBackLocked(&reserve_, rest);
      granted_.clear();
      missing = MissingLocked();
    }
    replaces = missing == 0 && !full() && ReserveIsInCrumbsLocked() && replacing_.Due();
  }
  if (replaces) ReplaceReserve();
  // A grant probes for room even where the reserve is whole.
  if (missing == 0 && !full()) return true;
  for (int grants = 0; grants < kRefillGrantsMax; ++grants) {
    const uint64_t bytes = std::max(RoundUpToRemote(missing), kRemoteAlignment);
    RemoteSpan extent;
    // Some pieces do where there is no single one.
    const Status status = Grant(bytes, std::min(RoundUpToRemote(bytes / 4), kReservePieceMin),
                                /*for_merge=*/false, &extent);
    port::MutexLock lock(mutex_);
    refill_ = status.code();
    if (!status.ok()) {
      full_reason_ = status;
      // Nothing could be written that is sure to find room.
      const bool covers_nothing = MemtablesCoveredBy(TotalBytes(reserve_)) == 0;
      if (status.IsBusy() && missing > 0 && covers_nothing)
        full_.store(true, std::memory_order_relaxed);
      return false;
    }
    PutBackLocked(missing == 0 ? &granted_ : &reserve_, extent);
    missing = MissingLocked();
    if (missing > 0) continue;
    full_.store(false, std::memory_order_relaxed);
    return true;
  }
  return false;  // The next call goes on.
}

void RemoteMemory::ReleaseCrumbsLocked() {
  const auto is_crumb = [](const RemoteSpan& piece) { return piece.bytes < kCrumbBytes; };
  for (const RemoteSpan& piece : reserve_) {
    if (is_crumb(piece)) FreeLocked(piece);
  }
  std::erase_if(reserve_, is_crumb);
}

uint64_t RemoteMemory::MissingLocked() const {
  const uint64_t held = TotalBytes(reserve_);
  return held < reserve_wanted_ ? reserve_wanted_ - held : 0;
}

// It is filled by what was missing just then, and tables leave rests.
bool RemoteMemory::ReserveIsInCrumbsLocked() const {
  const uint64_t large = std::min(reserve_wanted_, config_.grant_bytes) / 2;
  return !reserve_.empty() &&
         std::none_of(reserve_.begin(), reserve_.end(),
                      [large](const RemoteSpan& piece) { return piece.bytes >= large; });
}

void RemoteMemory::ReplaceReserve() {
  uint64_t wanted;
  {
    port::MutexLock lock(mutex_);
    wanted = reserve_wanted_;
  }
  RemoteSpan extent;
  const bool granted = Grant(wanted, wanted, /*for_merge=*/false, &extent).ok();
  {
    port::MutexLock lock(mutex_);
    replacing_.Tried(granted);
    if (!granted) return;
    ReleasePoolLocked(&reserve_);
    PutBackLocked(&reserve_, extent);
  }
  SendFrees().PermitUncheckedError();  // They stay queued.
}

void RemoteMemory::Trim(uint64_t reserve_bytes) {
  port::MutexLock lock(mutex_);
  if (full()) return;
  reserve_wanted_ = std::clamp(reserve_bytes, FirstReserve(), config_.reserve_bytes);
  next_grant_bytes_ = FirstGrant();
  ReleasePoolLocked(&granted_);
  uint64_t held = TotalBytes(reserve_);
  if (held / 2 < reserve_wanted_) return;
  while (held > reserve_wanted_) {
    const RemoteSpan piece = reserve_.back();
    const uint64_t others = held - piece.bytes;
    const uint64_t kept =
        others < reserve_wanted_ ? RoundUpToRemote(reserve_wanted_ - others) : uint64_t{0};
    if (kept >= piece.bytes) return;
    FreeLocked(piece.Sub(kept, piece.bytes - kept));
    reserve_.back() = piece.Sub(0, kept);
    if (kept == 0) reserve_.pop_back();
    held -= piece.bytes - kept;
  }
}

}  // namespace dlsm
