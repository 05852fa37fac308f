// Makes guessing secrets slow: who fails is answered late, and the next from the same address too.
//
// Everyone of an address is delayed alike, for whom a proof is from is not known before it has been
// checked. So a neighbour of somebody who guesses is served more slowly, and served.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "port/clock.h"
#include "port/mutex.h"

namespace dlsm {

// Thread-safe. Holds kAddressesMax addresses at most, whatever is tried.
class FailureLimiter {
 public:
  using Clock = port::Clock;

  // Who fails is held for so long, whatever came before.
  static constexpr std::chrono::milliseconds kRefusalDelay{200};
  static constexpr std::chrono::milliseconds kDelayPerFailure{50};
  static constexpr std::chrono::milliseconds kDelayMax{1000};
  // A failure is forgotten after so long; and a delay is at most so many failures.
  static constexpr std::chrono::seconds kForgottenAfter{10};
  static constexpr size_t kAddressesMax = 4096;

  // Before the proof of a client from there is checked, or its TLS handshake, which may be one.
  Clock::duration DelayOf(const std::string& address, Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  void Failed(const std::string& address, Clock::time_point now) LOCKS_EXCLUDED(mutex_);

 private:
  struct Failures {
    double count = 0;
    Clock::time_point at{};  // When `count` was right; it decays.
  };
  static double CountAt(const Failures& failures, Clock::time_point now);

  port::Mutex mutex_;  // Protects what follows.
  std::map<std::string, Failures> failures_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
