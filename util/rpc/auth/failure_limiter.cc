#include "util/rpc/auth/failure_limiter.h"

#include <algorithm>

namespace dlsm {

double FailureLimiter::CountAt(const Failures& failures, Clock::time_point now) {
  const std::chrono::duration<double> passed = now - failures.at;
  const std::chrono::duration<double> whole = kForgottenAfter;
  constexpr double kCountMax = static_cast<double>(kDelayMax / kDelayPerFailure);
  return std::max(0.0, failures.count - kCountMax * (passed / whole));
}

FailureLimiter::Clock::duration FailureLimiter::DelayOf(const std::string& address,
                                                        Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  const auto found = failures_.find(address);
  if (found == failures_.end()) return {};
  const auto count = static_cast<int64_t>(CountAt(found->second, now));
  return std::min<Clock::duration>(kDelayPerFailure * count, kDelayMax);
}

void FailureLimiter::Failed(const std::string& address, Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  std::erase_if(failures_, [now](const auto& each) { return CountAt(each.second, now) <= 0; });
  // More addresses than that fail at a time only where somebody has that many: a further one is
  // then delayed by its own failures no longer, but still by the delay of each refusal.
  if (failures_.size() >= kAddressesMax && !failures_.contains(address)) return;
  constexpr double kCountMax = static_cast<double>(kDelayMax / kDelayPerFailure);
  Failures& failures = failures_[address];
  failures.count = std::min(CountAt(failures, now) + 1, kCountMax);
  failures.at = now;
}

}  // namespace dlsm
