#include "db/nodes/flush_room.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if a reserve of the size that memtables need does not cover them, if it is not enough for
// their tables and as many again, or if it grows too late.
TEST(FlushRoomTest, AReserveCoversWhatItWasMadeFor) {
  for (uint64_t bytes = 64; bytes < uint64_t{1} << 40; bytes = bytes * 3 + 1) {
    SCOPED_TRACE(bytes);
    EXPECT_GE(MemtablesCoveredBy(ReserveFor(bytes)) + 4, bytes);  // It rounds down.
    EXPECT_LE(2 * TableBytesFor(MemtablesCoveredBy(ReserveFor(bytes))), ReserveFor(bytes));
    EXPECT_FALSE(ReserveShouldGrow(bytes, MemtablesCoveredBy(GrownReserveFor(bytes))));
    EXPECT_FALSE(ReserveShouldGrow(bytes, MemtablesCoveredBy(IdleReserveFor(bytes))));
    EXPECT_LE(IdleReserveFor(bytes), GrownReserveFor(bytes));
  }
}

// Fails if a reserve that has no room for a single table covers something, or sizes wrap.
TEST(FlushRoomTest, Limits) {
  EXPECT_EQ(MemtablesCoveredBy(0), 0u);
  EXPECT_EQ(MemtablesCoveredBy(2 * kTableBytesBesides), 0u);
  EXPECT_GT(GrownReserveFor(UINT64_MAX), uint64_t{1} << 55);
  EXPECT_GT(IdleReserveFor(UINT64_MAX), uint64_t{1} << 55);
}

}  // namespace
}  // namespace dlsm
