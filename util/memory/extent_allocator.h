// Which bytes of a region are free.
//
//   offsets   0        a        b    c            d   e         capacity
//             | used   | free   |used| free       |..| used  ...|
//
// Free extents are disjoint and never touch: they are joined.
//
// 1. Allocate: the smallest free extent that is large enough, of those the one at the lowest
//    address; its front is used, its rest stays free.
// 2. Take: any free range, for a caller that knows which bytes it wants.
// 3. Free: any range of used bytes, not only a whole allocation; it joins its free neighbours.
//
// All ranges start and end at multiples of kExtentAlignment: sizes are rounded up to it, always.
// The allocator knows nothing of owners. A call that throws (std::bad_alloc) has changed nothing.
// Every call takes O(log n) for n free extents.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "dLSM/status.h"

namespace dlsm {

inline constexpr uint64_t kExtentAlignment = 64;

inline uint64_t RoundUpToExtent(uint64_t bytes) {
  return (bytes + kExtentAlignment - 1) / kExtentAlignment * kExtentAlignment;
}

// One thread at a time: the caller locks.
class ExtentAllocator {
 public:
  // Of offsets [0, capacity), rounded down to the alignment. All are free.
  explicit ExtentAllocator(uint64_t capacity_bytes);

  // Sets *offset to that of `bytes` (rounded up) contiguous bytes. False, and nothing changes, if
  // there are none.
  bool Allocate(uint64_t bytes, uint64_t* offset);

  // Where Allocate() would find `bytes` now. False if it would not.
  bool Find(uint64_t bytes, uint64_t* offset) const;
  // The first free extent that ends behind `from`, cut off before it. False if there is none.
  bool NextFree(uint64_t from, uint64_t* begin, uint64_t* end) const;
  // Whether all of the range, which starts at a multiple of the alignment, is free.
  bool IsFree(uint64_t offset, uint64_t bytes) const;
  // The range, rounded up, is used from now on. InvalidArgument, and nothing changes, unless all of
  // it is free.
  Status Take(uint64_t offset, uint64_t bytes);

  // InvalidArgument, and nothing changes, if the range is not inside the region, does not start at
  // a multiple of the alignment, or holds a byte that is free already. No bytes: no effect.
  Status Free(uint64_t offset, uint64_t bytes);

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t used_bytes() const { return capacity_bytes_ - free_bytes_; }
  size_t free_extents() const { return by_offset_.size(); }
  uint64_t largest_free_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

  // Corruption naming what is wrong with this object.
  Status CheckInvariants() const;

 private:
  using ByOffset = std::map<uint64_t, uint64_t>;

  // The free extent that has all of the range; end() if there is none.
  ByOffset::const_iterator Containing(uint64_t offset, uint64_t bytes) const;

  void AddFree(uint64_t offset, uint64_t bytes);
  // Allocates nothing. So memory is needed only to free a range that has no free neighbour, and to
  // take one out of the middle of a free extent.
  void ChangeFree(ByOffset::iterator extent, uint64_t offset, uint64_t bytes);
  void RemoveFree(ByOffset::iterator extent);

  const uint64_t capacity_bytes_;
  uint64_t free_bytes_ = 0;
  ByOffset by_offset_;                               // Free extents: offset -> bytes.
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // The same: (bytes, offset).
};

}  // namespace dlsm
