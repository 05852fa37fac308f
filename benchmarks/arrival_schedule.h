// When each write of an open loop arrives: on a schedule of its own, however far the store is.
#pragma once

#include <cstdint>

namespace dlsm::bench {

enum class ArrivalPattern { kConstant, kBursty };

struct ArrivalPlan {
  ArrivalPattern pattern = ArrivalPattern::kConstant;
  double mean_rate = 0;  // Arrivals per second; above 0.
  // Bursty: every period ends with a burst, in which arrivals are `burst_factor` times as frequent
  // as before it. The mean over a period stays mean_rate.
  //
  //   rate |            ____              ____
  //        |___________|    |____________|    |
  //        |<--- period --->|            burst
  double burst_factor = 4;   // At least 1.
  double burst_seconds = 5;  // Above 0 and below the period.
  double burst_period_seconds = 30;
};

// Arrivals are numbered from 0, and their times are a fixed function of the number: threads need to
// share nothing but the number of the next. Thread-safe.
class ArrivalSchedule {
 public:
  // Arrivals in [0, seconds).
  ArrivalSchedule(const ArrivalPlan& plan, double seconds);

  uint64_t count() const { return count_; }
  uint64_t end_ns() const { return end_ns_; }
  // Nanoseconds after the start; ascends with `arrival`.
  uint64_t AtNs(uint64_t arrival) const {
    const double number = static_cast<double>(arrival);
    return static_cast<uint64_t>(bursty_ ? BurstyNs(number) : number * 1e9 / quiet_rate_);
  }
  // Arrivals per second between the bursts, and in them.
  double quiet_rate() const { return quiet_rate_; }
  double burst_rate() const { return burst_rate_; }

 private:
  double BurstyNs(double number) const;
  uint64_t CountBeforeEnd(double at_most) const;

  bool bursty_;
  double quiet_rate_;
  double burst_rate_;
  double quiet_seconds_;
  double period_seconds_;
  double quiet_arrivals_;  // In a period, before its burst.
  double period_arrivals_;
  uint64_t end_ns_;
  uint64_t count_ = 0;
};

}  // namespace dlsm::bench
