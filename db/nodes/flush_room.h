// How much remote memory the flush of memtables takes, and how large a reserve for it must be.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlsm {

// For one table of all that a memtable of so many bytes holds: records, and an eighth for
// checksums, index and filter. What is over goes back; if it is too little, one more table follows.
inline constexpr uint64_t kTableBytesBesides = uint64_t{64} << 10;
constexpr uint64_t TableBytesFor(uint64_t memtable_bytes) {
  return memtable_bytes + memtable_bytes / 8 + kTableBytesBesides;
}

// What memtables of a shard may have, active and immutable ones together, if a reserve of
// `reserve_bytes` is to flush them, and as many bytes of deletions after them.
constexpr uint64_t MemtablesCoveredBy(uint64_t reserve_bytes) {
  if (reserve_bytes <= 2 * kTableBytesBesides) return 0;
  return (reserve_bytes - 2 * kTableBytesBesides) / 9 * 4;
}
// The same of a reserve that is as large as the memory node allows: an eighth is left for
// deletions.
constexpr uint64_t MemtablesCoveredByLargest(uint64_t reserve_bytes) {
  if (reserve_bytes <= 2 * kTableBytesBesides) return 0;
  return (reserve_bytes - 2 * kTableBytesBesides) / 9 * 7;
}
// What memtables may have, deletions included, if a reserve of `reserve_bytes` is to flush them.
constexpr uint64_t DeletionsCoveredBy(uint64_t reserve_bytes) {
  if (reserve_bytes <= kTableBytesBesides) return 0;
  return (reserve_bytes - kTableBytesBesides) / 9 * 8;
}
// The reserve that memtables need: MemtablesCoveredBy() the other way round.
constexpr uint64_t ReserveFor(uint64_t memtable_bytes) { return 2 * TableBytesFor(memtable_bytes); }

// A reserve grows before memtables have used up what it covers, so that writers need not wait: when
// they have half of that; and by so much that it seldom has to.
constexpr bool ReserveShouldGrow(uint64_t memtable_bytes, uint64_t covered_bytes) {
  return memtable_bytes >= covered_bytes / 2;
}
constexpr uint64_t GrownReserveFor(uint64_t memtable_bytes) {
  constexpr uint64_t kTimes = 8;
  return ReserveFor(kTimes * std::min(memtable_bytes, UINT64_MAX / 64));
}
// What a database keeps that is not written to: it need not grow at the next write.
constexpr uint64_t IdleReserveFor(uint64_t memtable_bytes) {
  constexpr uint64_t kTimes = 4;
  return ReserveFor(kTimes * std::min(memtable_bytes, UINT64_MAX / 64));
}

}  // namespace dlsm
