// Measures how long a public call takes, if that is asked for (StatsLevel::kLatencies).
#pragma once

#include <chrono>
#include <cstdint>

#include "dLSM/statistics.h"
#include "port/clock.h"

namespace dlsm {

class CallTimer {
 public:
  // `statistics` outlives this.
  CallTimer(Statistics* statistics, HistogramType type)
      : statistics_(statistics->level() == StatsLevel::kLatencies ? statistics : nullptr),
        type_(type) {
    if (statistics_ != nullptr) [[unlikely]]
      start_ = port::Clock::now();
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  ~CallTimer() {
    if (statistics_ != nullptr) [[unlikely]]
      Add();
  }

 private:
  // Apart, so that calls that are not measured stay small.
  [[gnu::noinline]] void Add() const {
    const std::chrono::nanoseconds taken = port::Clock::now() - start_;
    statistics_->AddLatency(type_, static_cast<uint64_t>(taken.count()));
  }

  Statistics* const statistics_;  // Is null if the call is not measured.
  const HistogramType type_;
  port::Clock::time_point start_;
};

}  // namespace dlsm
