// Where writers wait when there is no room for more. Open, it costs them one load.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "port/mutex.h"

namespace dlsm {

enum class StallReason : uint8_t { kMemtables = 0, kLevel0, kMemory };
inline constexpr size_t kStallReasonCount = 3;

// Thread-safe.
class StallGate {
 public:
  // Writers that have seen no progress for `timeout` give up.
  StallGate(std::chrono::milliseconds timeout, Statistics* statistics)
      : timeout_(timeout), statistics_(statistics) {}

  // What only deletes passes while the sole reason is kMemory: deletions make room.
  Status Pass(bool only_deletes) {
    const uint32_t reasons = reasons_.load(std::memory_order_acquire);
    return reasons == 0 ? Status::OK() : Wait(only_deletes);
  }

  void Set(StallReason reason, bool closed) LOCKS_EXCLUDED(mutex_);
  bool closed() const { return reasons_.load(std::memory_order_acquire) != 0; }
  bool closed(StallReason reason) const {
    return (reasons_.load(std::memory_order_acquire) & Bit(reason)) != 0;
  }
  // A flush or a merge was installed.
  void NoteProgress() LOCKS_EXCLUDED(mutex_);
  // What keeps background work from getting on; forgotten at the next progress.
  void NoteError(const Status& error) LOCKS_EXCLUDED(mutex_);
  // The database is closing: everybody leaves with an error.
  void Shut() LOCKS_EXCLUDED(mutex_);

 private:
  static uint32_t Bit(StallReason reason) { return 1u << static_cast<uint32_t>(reason); }
  static constexpr uint32_t kShut = 1u << 31;

  Status Wait(bool only_deletes) LOCKS_EXCLUDED(mutex_);
  bool MayPass(bool only_deletes) const;
  Status GiveUp() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::chrono::milliseconds timeout_;
  Statistics* const statistics_;
  std::atomic<uint32_t> reasons_{0};

  port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  std::chrono::steady_clock::time_point last_progress_ GUARDED_BY(mutex_);
  Status error_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
