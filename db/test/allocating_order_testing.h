// A comparator that needs memory, as those of applications may.
#pragma once

#include <string>

#include "dLSM/comparator.h"
#include "port/allocation_point.h"

namespace dlsm {

// Bytewise; each comparison is a place where there may be none.
class AllocatingOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    port::AllocationPoint();
    return a.compare(b);
  }
  const char* Name() const override { return "test.AllocatingOrder"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

}  // namespace dlsm
