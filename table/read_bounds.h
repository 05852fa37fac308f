// The bounds of an iterator, as the iterators below it see them: they read nothing of tables beyond
// them, as far as their indexes tell. They may still show keys that are out of bounds.
#pragma once

#include <cstdint>
#include <optional>

#include "dLSM/slice.h"

namespace dlsm {

struct ReadBounds {
  // User keys in [lower, upper) are wanted.
  std::optional<Slice> lower;
  std::optional<Slice> upper;
  // Another one with each change. Bounds change before a seek only, or become narrower.
  uint64_t version = 0;
};

}  // namespace dlsm
