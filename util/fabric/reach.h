// What the holder of a data token may reach, where that is not all there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "util/fabric/remote_address.h"

namespace dlsm {

struct ReachedRange {
  RegionId region{};
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Thread-safe.
class Reach {
 public:
  virtual ~Reach() = default;
  // Whether these ranges, read or written, are the client's. If so, `transfer` is called before the
  // answer, and none of them is given to anybody else until it has returned: it must not block.
  virtual bool During(const ReachedRange* ranges, size_t count, bool writes,
                      const std::function<void()>& transfer) const = 0;
};

// Null: everything.
using ReachPointer = std::shared_ptr<const Reach>;

}  // namespace dlsm
