#include "util/fabric/adaptive_poll.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace dlsm {

void AdaptivePoll::Begin() {
  // Who never polls need not know what time it is.
  Begin(group_.most_.count() > 0 ? port::Clock::now() : TimePoint());
}

void AdaptivePoll::Begin(TimePoint now) {
  polling_ = tried_ = slept_ = left_ = false;
  const uint32_t others = group_.waiting_.fetch_add(1, std::memory_order_relaxed);
  if (group_.most_.count() == 0) return;
  if (skip_ > 0) {
    --skip_;
  } else if (others < group_.waiting_max_ &&
             now >= group_.rest_until_.load(std::memory_order_relaxed)) {
    polling_ = tried_ = true;
    until_ = now + group_.most_;
    looks_left_ = UINT32_MAX;
  }
}

bool AdaptivePoll::Again() {
  const TimePoint from = polling_ ? port::Clock::now() : TimePoint();
  if (!MayPoll(from)) return false;
  static_cast<void>(::sched_yield());  // Cannot fail.
  again_at_ = port::Clock::now();
  GaveUpProcessor(from, again_at_);
  return true;
}

bool AdaptivePoll::MayPoll(TimePoint now) {
  if (polling_ && now < until_ && looks_left_ > 0) {
    --looks_left_;
    return true;
  }
  polling_ = false;
  slept_ = true;
  return false;
}

void AdaptivePoll::GaveUpProcessor(TimePoint from, TimePoint to) {
  const auto away = to - from;
  if (away <= kTurnMax) return;
  polling_ = false;
  const auto rest = std::min<port::Clock::duration>(kRestShare * away, kRestMax);
  group_.rest_until_.store(to + rest, std::memory_order_relaxed);
}

void AdaptivePoll::Leave() {
  if (!std::exchange(left_, true)) group_.waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void AdaptivePoll::End() {
  if (!left_) group_.waiting_.fetch_sub(1, std::memory_order_relaxed);
  (slept_ ? group_.slept_ : group_.polled_).fetch_add(1, std::memory_order_relaxed);
  if (!tried_) return;
  if (!slept_) {
    pause_ /= 2;
    return;
  }
  pause_ = std::clamp<uint32_t>(2 * pause_, 1, kSkippedMax);
  skip_ = pause_;
}

}  // namespace dlsm
