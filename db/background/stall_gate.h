// Where writers wait when there is no room for more. Open, it costs them one load.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/background/write_pacer.h"
#include "port/clock.h"
#include "port/mutex.h"

namespace dlsm {

// All but the last close the gate.
enum class StallReason : uint8_t { kMemtables = 0, kLevel0, kComponents, kMemory, kSlowed };
inline constexpr size_t kStallReasonCount = 5;
const char* StallReasonName(StallReason reason);

// Of all writers together. A stall counts when it has ended.
struct StallTotal {
  uint64_t count = 0;
  uint64_t micros = 0;
  uint64_t longest_micros = 0;
};
using StallTotals = std::array<StallTotal, kStallReasonCount>;

// Thread-safe.
class StallGate {
 public:
  static constexpr auto kNoEnd = port::Clock::time_point::max();

  // Writers that have seen no progress for `timeout` give up: with Busy, or with the code of the
  // error behind it if that does not pass by itself.
  StallGate(std::chrono::milliseconds timeout, Statistics* statistics)
      : timeout_(timeout), statistics_(statistics) {}

  // Before `bytes` are written. What only deletes passes while the sole reason is kMemory:
  // deletions make room. A write that may not wait is Busy where it would have to, also to keep the
  // pace; one that would have to wait beyond `until` is TimedOut then.
  Status Pass(bool only_deletes, uint64_t bytes, bool may_wait = true,
              port::Clock::time_point until = kNoEnd) {
    const uint32_t reasons = reasons_.load(std::memory_order_acquire);
    if (reasons == 0) [[likely]]
      return Status::OK();
    return may_wait ? Wait(only_deletes, bytes, until) : PassAtOnce(only_deletes, bytes);
  }

  // One of the gates that a write to several shards has to pass, and what it writes there.
  struct Share {
    StallGate* gate;
    bool only_deletes;
    uint64_t bytes;
  };
  // Passes all of them. On an error *refused_by says whose it is.
  static Status PassAll(std::span<const Share> shares, bool may_wait, size_t* refused_by,
                        port::Clock::time_point until = kNoEnd) {
    for (const Share& share : shares) {
      if (share.gate->reasons_.load(std::memory_order_acquire) != 0) {
        return may_wait ? WaitForAll(shares, until, refused_by) : PassAllAtOnce(shares, refused_by);
      }
    }
    return Status::OK();
  }

  // kSlowed is set by SetPace().
  void Set(StallReason reason, bool closed) LOCKS_EXCLUDED(mutex_);
  // Bytes a second for all writers together; 0: no limit.
  void SetPace(double bytes_per_second) LOCKS_EXCLUDED(mutex_);
  bool closed() const { return (reasons_.load(std::memory_order_acquire) & ~kPaced) != 0; }
  bool closed(StallReason reason) const {
    return (reasons_.load(std::memory_order_acquire) & Bit(reason)) != 0;
  }
  // A flush or a merge was installed.
  void NoteProgress() LOCKS_EXCLUDED(mutex_);
  // What keeps background work from getting on; forgotten at the next progress.
  void NoteError(const Status& error) LOCKS_EXCLUDED(mutex_);
  // Nobody may write any more: everybody gets this error, or a later one, now and always.
  void Refuse(const Status& error) LOCKS_EXCLUDED(mutex_);
  // OK: nobody is refused.
  Status refusal() const LOCKS_EXCLUDED(mutex_);
  // The database is closing: everybody leaves with an error.
  void Shut() LOCKS_EXCLUDED(mutex_);

  // Somebody waits here just now, or sleeps to keep the pace; or would have within the last tenth
  // of a second, and was refused for it.
  bool somebody_waits() const LOCKS_EXCLUDED(mutex_);
  StallTotals totals() const LOCKS_EXCLUDED(mutex_);

 private:
  static uint32_t Bit(StallReason reason) { return 1u << static_cast<uint32_t>(reason); }
  static constexpr uint32_t kPaced = 1u << static_cast<uint32_t>(StallReason::kSlowed);
  static constexpr uint32_t kShut = 1u << 31;
  static constexpr uint32_t kRefusing = 1u << 30;

  using TimePoint = port::Clock::time_point;

  Status Wait(bool only_deletes, uint64_t bytes, TimePoint until) LOCKS_EXCLUDED(mutex_);
  Status PassAtOnce(bool only_deletes, uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  static Status PassAllAtOnce(std::span<const Share> shares, size_t* refused_by);
  // OK: neither the gate nor the pace would have him wait.
  Status CheckOpenNow(bool only_deletes, port::Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  Status WaitForOpening(bool only_deletes, TimePoint until) LOCKS_EXCLUDED(mutex_);
  Status KeepPace(uint64_t bytes, TimePoint until) LOCKS_EXCLUDED(mutex_);
  // Ends early where nobody may write any more, and as TimedOut where that is beyond `until`.
  Status Sleep(TimePoint started, std::chrono::nanoseconds duration, TimePoint until)
      LOCKS_EXCLUDED(mutex_);
  static Status WaitForAll(std::span<const Share> shares, TimePoint until, size_t* refused_by);
  static Status WaitForOpenings(std::span<const Share> shares, TimePoint until, size_t* refused_by);
  static Status KeepSlowestPace(std::span<const Share> shares, TimePoint until, size_t* refused_by);
  void Count(StallReason reason, port::Clock::time_point started) LOCKS_EXCLUDED(mutex_);
  static bool MayPass(bool only_deletes, uint32_t reasons);
  bool MayPass(bool only_deletes) const {
    return MayPass(only_deletes, reasons_.load(std::memory_order_acquire));
  }
  Status GiveUp() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::chrono::milliseconds timeout_;
  Statistics* const statistics_;
  std::atomic<uint32_t> reasons_{0};
  std::atomic<port::Clock::time_point> last_refused_{};  // Who may not wait. Relaxed: a hint.
  WritePacer pacer_;

  mutable port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  port::Clock::time_point last_progress_ GUARDED_BY(mutex_);
  Status error_ GUARDED_BY(mutex_);
  Status refusal_ GUARDED_BY(mutex_);  // If kRefusing.
  StallTotals totals_ GUARDED_BY(mutex_);
  int waiting_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
