// Whether a history of operations on registers is linearizable: whether all that was seen can be
// explained by one order of the operations in which each takes effect between its call and its
// return (Herlihy and Wing, 1990). With operations on several registers this is strict
// serializability.
//
// Registers that no operation connects are checked by themselves: linearizability is compositional.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "db/test/history_testing.h"

namespace dlsm {

struct Verdict {
  enum class Outcome : uint8_t {
    kLinearizable,
    kViolation,  // No order explains the history.
    kUndecided,  // The limits were reached first: nothing has been shown.
  };

  Outcome outcome = Outcome::kLinearizable;
  // What is wrong, for people.
  std::string explanation;
  // kViolation: operations of the history that are a violation by themselves. As few as were found
  // in some seconds: mostly, without any one of them (and who saw what it wrote) there is none.
  History counterexample;
};

std::ostream& operator<<(std::ostream& out, const Verdict& verdict);

struct CheckerLimits {
  std::chrono::nanoseconds time = std::chrono::seconds(60);
  // States of the registers, and of what is under way, that are kept at once.
  size_t configurations = size_t{1} << 18;
};

// All registers are absent at the start. Wants at most 64 operations under way at a time.
Verdict CheckLinearizability(const History& history, const CheckerLimits& limits = {});

}  // namespace dlsm
