#include "benchmarks/arrival_schedule.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace dlsm::bench {

ArrivalSchedule::ArrivalSchedule(const ArrivalPlan& plan, double seconds)
    : bursty_(plan.pattern == ArrivalPattern::kBursty),
      quiet_rate_(plan.mean_rate),
      burst_rate_(plan.mean_rate),
      quiet_seconds_(plan.burst_period_seconds - plan.burst_seconds),
      period_seconds_(plan.burst_period_seconds),
      period_arrivals_(plan.mean_rate * plan.burst_period_seconds),
      end_ns_(static_cast<uint64_t>(seconds * 1e9)) {
  assert(plan.mean_rate > 0);
  if (bursty_) {
    assert(plan.burst_factor >= 1);
    assert(plan.burst_seconds > 0);
    assert(quiet_seconds_ > 0);
    quiet_rate_ = period_arrivals_ / (quiet_seconds_ + plan.burst_factor * plan.burst_seconds);
    burst_rate_ = quiet_rate_ * plan.burst_factor;
  }
  quiet_arrivals_ = quiet_rate_ * quiet_seconds_;
  count_ = CountBeforeEnd(seconds * burst_rate_);
}

double ArrivalSchedule::BurstyNs(double number) const {
  const double periods = std::floor(number / period_arrivals_);
  // Rounding may leave it a little below 0.
  const double left = std::max(0.0, number - periods * period_arrivals_);
  const double seconds = left < quiet_arrivals_
                             ? left / quiet_rate_
                             : quiet_seconds_ + (left - quiet_arrivals_) / burst_rate_;
  return (periods * period_seconds_ + seconds) * 1e9;
}

// The number of arrivals before the end, which are not more than about `at_most`: by halving.
uint64_t ArrivalSchedule::CountBeforeEnd(double at_most) const {
  uint64_t low = 0;
  uint64_t high = static_cast<uint64_t>(at_most) + 2;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (AtNs(middle) < end_ns_) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace dlsm::bench
