#include "db/background/write_pacer.h"

#include <algorithm>

namespace dlsm {
namespace {

constexpr double kFreeShare = 0.5;
constexpr double kTrickle = double{64 << 10};
// Sleeping takes about this long at least.
constexpr auto kSleepMin = std::chrono::microseconds(100);
// A longer wait is one for the next writes to end: nobody is asked to be away for longer.
constexpr auto kSleepMax = std::chrono::milliseconds(100);

// Time that is owed, as far as anybody has to pay it.
int64_t Bounded(double nanoseconds) {
  constexpr auto kMost = static_cast<double>(WritePacer::kOwedMax.count());
  return static_cast<int64_t>(std::min(nanoseconds, kMost));
}

}  // namespace

double PaceFor(double used_share, double sustained_rate) {
  if (used_share <= kFreeShare || sustained_rate <= 0) return 0;
  const double left = std::max(0.0, 1 - used_share) / (1 - kFreeShare);
  return std::max(kTrickle, 2 * left * sustained_rate);
}

void SustainedRate::Add(uint64_t bytes, Clock::time_point now) {
  samples_[count_++ % kSamples] = Sample{now - paused_, bytes};
}

void SustainedRate::Look(bool busy, Clock::time_point now) {
  const bool first = looked_at_ == Clock::time_point();
  if (!busy && !first) paused_ += now - looked_at_;
  looked_at_ = now;
}

double SustainedRate::Get(Clock::time_point now) const {
  if (count_ < 2) return 0;
  const size_t first = count_ <= kSamples ? 0 : count_ - kSamples;
  const Sample& oldest = samples_[first % kSamples];
  uint64_t bytes = 0;
  // The oldest is where time begins.
  for (size_t i = first + 1; i < count_; ++i) bytes += samples_[i % kSamples].bytes;
  const std::chrono::duration<double> took = now - paused_ - oldest.when;
  return took.count() > 0 ? static_cast<double>(bytes) / took.count() : 0;
}

void WritePacer::SetRate(double bytes_per_second, Clock::time_point now) {
  // Only if it changes: writers read it.
  if (rate_.load(std::memory_order_relaxed) == bytes_per_second) return;
  const double before = rate_.exchange(bytes_per_second, std::memory_order_relaxed);
  const double scale =
      before > 0 && bytes_per_second > 0 ? before / bytes_per_second : 0;  // Of time for a byte.
  const int64_t now_ns = now.time_since_epoch().count();
  int64_t next = next_.load(std::memory_order_relaxed);
  int64_t scaled;
  do {
    const auto owed = static_cast<double>(std::max<int64_t>(next - now_ns, 0));
    scaled = now_ns + Bounded(owed * scale);
  } while (!next_.compare_exchange_weak(next, scaled, std::memory_order_relaxed));
}

std::chrono::nanoseconds WritePacer::Take(uint64_t bytes, Clock::time_point now) {
  const double rate = rate_.load(std::memory_order_relaxed);
  if (rate <= 0) return {};
  const int64_t now_ns = now.time_since_epoch().count();
  const int64_t cost = Bounded(static_cast<double>(bytes) * 1e9 / rate);
  int64_t next = next_.load(std::memory_order_relaxed);
  int64_t start;
  int64_t end;
  do {
    start = std::max(next, now_ns);  // Time in which nobody wrote is not saved up.
    end = std::min(start + cost, now_ns + kOwedMax.count());
  } while (!next_.compare_exchange_weak(next, end, std::memory_order_relaxed));
  const std::chrono::nanoseconds wait(start - now_ns);
  if (wait < kSleepMin) return {};
  return std::min<std::chrono::nanoseconds>(wait, kSleepMax);
}

bool WritePacer::HasToWait(Clock::time_point now) const {
  if (rate_.load(std::memory_order_relaxed) <= 0) return false;
  const int64_t now_ns = now.time_since_epoch().count();
  return std::chrono::nanoseconds(next_.load(std::memory_order_relaxed) - now_ns) >= kSleepMin;
}

}  // namespace dlsm
