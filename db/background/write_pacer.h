// Spreads writes over time, when a store that falls behind is to slow its writers down before it
// must stop them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "port/clock.h"

namespace dlsm {

// Bytes of writes a second when `used_share` of a limit is used up and `sustained_rate` is what
// came through of late, waits included. No limit (0) up to the half; there twice the sustained
// rate, at three quarters just that, and less with what is left: so where writes come too fast for
// merges, the share settles between a half and one (the spring of bLSM, section 4.3). Never less
// than a trickle.
double PaceFor(double used_share, double sustained_rate);

// At what rate writes come through while there are any. Who tells of each memtable that is full or
// flushed, and looks now and then whether somebody writes, can tell the sustained rate.
class SustainedRate {
 public:
  using Clock = port::Clock;

  void Add(uint64_t bytes, Clock::time_point now);
  // `busy`: somebody has written, or has waited to, since the last look. Else that time is left
  // out: a pause says nothing about what merges can bear.
  void Look(bool busy, Clock::time_point now);
  // Bytes a second over the last ones; 0: not known yet. What is not looked at yet was busy.
  double Get(Clock::time_point now) const;

 private:
  struct Sample {
    Clock::time_point when;  // Without pauses.
    uint64_t bytes = 0;
  };
  static constexpr size_t kSamples = 8;
  std::array<Sample, kSamples> samples_;
  size_t count_ = 0;
  Clock::time_point looked_at_;
  Clock::duration paused_{};  // All pauses together.
};

// Thread-safe. All writers together keep to one rate, in the order in which they ask.
class WritePacer {
 public:
  using Clock = port::Clock;

  // 0: no limit, and nothing is owed any more. Otherwise the bytes that are owed still are, at the
  // new rate: what one write has taken while the rate was low keeps nobody for long once it is high
  // again.
  void SetRate(double bytes_per_second, Clock::time_point now);
  // How long the caller shall wait now that it is about to write `bytes`. Waits too short to be
  // slept are owed by those who come next; never more than kOwedMax.
  std::chrono::nanoseconds Take(uint64_t bytes, Clock::time_point now);
  // Whether Take() would tell somebody to wait.
  bool HasToWait(Clock::time_point now) const;

  // Rates are set anew with each memtable and each merge. What would be owed for longer says how
  // large one write was, or how many writers there are, and not how far merges have fallen behind.
  static constexpr std::chrono::nanoseconds kOwedMax = std::chrono::seconds(1);

 private:
  // Relaxed: a rate that arrives a write late does no harm, for even that write owes no more than
  // kOwedMax.
  std::atomic<double> rate_{0};
  std::atomic<int64_t> next_{0};  // On the clock, when all that was taken will have been written.
};

}  // namespace dlsm
