// Memory for RegisteredBuffers on fabrics that need no registration. In sizes of powers of two,
// aligned to that or to pages; what comes back is kept for the next buffer of its size, up to a
// bound.
//
// Buffers that are to be on a NUMA node have pages of their own, for only pages can be placed: one
// of a page or more is a mapping, smaller ones are cut from a slab, and stay the pool's for good.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/fabric.h"
#include "util/numa.h"

namespace dlsm {

// Thread-safe. Buffers keep what they need of the pool alive, so they may outlive it.
class BufferPool {
 public:
  explicit BufferPool(int numa_node = kNoNumaNode);
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer);

 private:
  class Shelves;
  std::shared_ptr<Shelves> shelves_;
};

}  // namespace dlsm
