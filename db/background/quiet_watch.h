// Whether nobody writes, so that merges for the sake of reads, and those that nobody has asked for,
// are in nobody's way.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "port/clock.h"

namespace dlsm {

// Not thread-safe.
class QuietWatch {
 public:
  using Clock = port::Clock;

  // Without any write it is quiet soon. A trickle of writes keeps nothing busy either, as long as
  // it fills no memtable.
  static constexpr auto kQuietAfterWrite = std::chrono::milliseconds(100);
  static constexpr auto kQuietAfterFlush = std::chrono::seconds(1);

  // While somebody waits until nothing is left to do, nobody is expected to write.
  static constexpr auto kQuietWhileAwaited = std::chrono::milliseconds(10);

  // To be told now and then how many keys were written, and memtables flushed, in all.
  void Note(Clock::time_point now, uint64_t keys_written, uint64_t flushes) {
    if (std::exchange(keys_written_, keys_written) != keys_written) written_at_ = now;
    if (std::exchange(flushes_, flushes) != flushes) flushed_at_ = now;
  }

  uint64_t keys_written() const { return keys_written_; }  // As noted last.

  // Somebody begins to wait who has written what was noted.
  void BeginAwaited() { written_at_ = flushed_at_ = Clock::time_point(); }

  // Nobody has written, nor was anything flushed, for so long that what is kept for writes is
  // better given to others.
  static constexpr auto kIdleAfter = std::chrono::seconds(5);
  bool IsIdle(Clock::time_point now) const {
    return now - std::max(written_at_, flushed_at_) >= kIdleAfter;
  }

  bool IsQuiet(Clock::time_point now, bool awaited) const {
    if (awaited) return now - written_at_ >= kQuietWhileAwaited;
    if (now - flushed_at_ < kQuietAfterWrite) return false;
    return now - written_at_ >= kQuietAfterWrite || now - flushed_at_ >= kQuietAfterFlush;
  }

 private:
  uint64_t keys_written_ = 0;
  uint64_t flushes_ = 0;
  Clock::time_point written_at_;
  Clock::time_point flushed_at_;
};

}  // namespace dlsm
