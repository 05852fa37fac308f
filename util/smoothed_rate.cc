#include "util/smoothed_rate.h"

#include <cmath>

namespace dlsm {
namespace {

// What was seen this much measured time ago counts a third. Long beside a slice of a merge, short
// beside a change of load.
constexpr double kMemorySeconds = 2;
constexpr double kSecondsLeast = 0.001;
constexpr auto kForgotten = std::chrono::seconds(60);

}  // namespace

void SmoothedRate::Add(uint64_t bytes, std::chrono::nanoseconds took, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(took).count();
  if (!(seconds > 0)) return;
  const double kept = now - last_ > kForgotten ? 0 : std::exp(-seconds / kMemorySeconds);
  bytes_ = bytes_ * kept + static_cast<double>(bytes);
  seconds_ = seconds_ * kept + seconds;
  last_ = now;
}

uint64_t SmoothedRate::BytesPerSecond(Clock::time_point now) const {
  if (seconds_ < kSecondsLeast || now - last_ > kForgotten) return 0;
  return static_cast<uint64_t>(bytes_ / seconds_);
}

}  // namespace dlsm
