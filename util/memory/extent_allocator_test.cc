#include "util/memory/extent_allocator.h"

#include <gtest/gtest.h>

#include <vector>

#include "util/random.h"

namespace dlsm {
namespace {

constexpr uint64_t kUnit = kExtentAlignment;

// Fails if the best fit is not taken, or the lowest of equals.
TEST(ExtentAllocatorTest, TakesTheSmallestThatFitsAtTheLowestAddress) {
  ExtentAllocator allocator(100 * kUnit);
  uint64_t offset = 0;
  ASSERT_TRUE(allocator.Allocate(100 * kUnit, &offset));
  ASSERT_TRUE(allocator.Free(10 * kUnit, 5 * kUnit).ok());
  ASSERT_TRUE(allocator.Free(30 * kUnit, 3 * kUnit).ok());
  ASSERT_TRUE(allocator.Free(50 * kUnit, 3 * kUnit).ok());
  ASSERT_TRUE(allocator.Allocate(3 * kUnit, &offset));
  EXPECT_EQ(offset, 30 * kUnit);
  ASSERT_TRUE(allocator.Allocate(2 * kUnit, &offset));
  EXPECT_EQ(offset, 50 * kUnit);
  ASSERT_TRUE(allocator.Allocate(4 * kUnit, &offset));
  EXPECT_EQ(offset, 10 * kUnit);
  EXPECT_FALSE(allocator.Allocate(2 * kUnit, &offset));
  EXPECT_EQ(allocator.largest_free_bytes(), kUnit);
}

// Fails if a size is not rounded up, or rounds up beyond what there is.
TEST(ExtentAllocatorTest, RoundsSizesUp) {
  ExtentAllocator allocator(10 * kUnit + 7);
  EXPECT_EQ(allocator.capacity_bytes(), 10 * kUnit);
  uint64_t offset = 0;
  ASSERT_TRUE(allocator.Allocate(1, &offset));
  EXPECT_EQ(allocator.used_bytes(), kUnit);
  EXPECT_FALSE(allocator.Allocate(9 * kUnit + 1, &offset));
  EXPECT_FALSE(allocator.Allocate(~uint64_t{0}, &offset));
  ASSERT_TRUE(allocator.Allocate(9 * kUnit, &offset));
  EXPECT_EQ(offset, kUnit);
  ASSERT_TRUE(allocator.Free(0, 1).ok());
  EXPECT_EQ(allocator.free_bytes(), kUnit);
}

// Fails if a wrong free is taken, or changes anything.
TEST(ExtentAllocatorTest, RefusesWrongFrees) {
  ExtentAllocator allocator(10 * kUnit);
  uint64_t offset = 0;
  ASSERT_TRUE(allocator.Allocate(6 * kUnit, &offset));
  ASSERT_TRUE(allocator.Free(2 * kUnit, 2 * kUnit).ok());
  EXPECT_TRUE(allocator.Free(2 * kUnit, kUnit).IsInvalidArgument());       // Twice.
  EXPECT_TRUE(allocator.Free(kUnit, 2 * kUnit).IsInvalidArgument());       // In part.
  EXPECT_TRUE(allocator.Free(3 * kUnit, 2 * kUnit).IsInvalidArgument());   // In part.
  EXPECT_TRUE(allocator.Free(0, 6 * kUnit).IsInvalidArgument());           // Around it.
  EXPECT_TRUE(allocator.Free(5 * kUnit, 2 * kUnit).IsInvalidArgument());   // Never allocated.
  EXPECT_TRUE(allocator.Free(1, kUnit).IsInvalidArgument());               // Not aligned.
  EXPECT_TRUE(allocator.Free(11 * kUnit, 1).IsInvalidArgument());          // Outside.
  EXPECT_TRUE(allocator.Free(kUnit, ~uint64_t{0}).IsInvalidArgument());    // Overflows.
  EXPECT_TRUE(allocator.Free(~uint64_t{0} - 63, 64).IsInvalidArgument());  // Overflows.
  EXPECT_EQ(allocator.free_bytes(), 6 * kUnit);
  EXPECT_TRUE(allocator.CheckInvariants().ok());
}

// Fails if bytes are taken that are not free, outside the region, or not where an extent starts.
TEST(ExtentAllocatorTest, TakesOnlyWhatIsFree) {
  ExtentAllocator allocator(10 * kUnit);
  ASSERT_TRUE(allocator.Take(4 * kUnit, 2 * kUnit).ok());
  EXPECT_EQ(allocator.free_bytes(), 8 * kUnit);
  EXPECT_TRUE(allocator.Take(3 * kUnit, 2 * kUnit).IsInvalidArgument());
  EXPECT_TRUE(allocator.Take(5 * kUnit, 1).IsInvalidArgument());
  EXPECT_TRUE(allocator.Take(1, kUnit).IsInvalidArgument());
  EXPECT_TRUE(allocator.Take(10 * kUnit, kUnit).IsInvalidArgument());
  EXPECT_TRUE(allocator.Take(9 * kUnit, ~uint64_t{0}).IsInvalidArgument());  // Overflows.
  EXPECT_TRUE(allocator.Take(0, 4 * kUnit).ok());
  EXPECT_TRUE(allocator.Take(6 * kUnit, 4 * kUnit).ok());
  EXPECT_EQ(allocator.free_bytes(), 0u);
  EXPECT_TRUE(allocator.CheckInvariants().ok());
}

// A bitmap of units must agree with the allocator after any sequence of calls, whatever parts of
// former allocations are freed.
TEST(ExtentAllocatorTest, AgreesWithABitmap) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    constexpr uint64_t kUnits = 300;
    ExtentAllocator allocator(kUnits * kUnit);
    std::vector<bool> used(kUnits, false);
    uint64_t used_units = 0;
    for (int step = 0; step < 2000; ++step) {
      if (random.OneIn(2)) {
        const uint64_t units = 1 + random.Uniform(20);
        uint64_t offset = 0;
        if (!allocator.Allocate(units * kUnit - random.Uniform(kUnit), &offset)) {
          ASSERT_LT(allocator.largest_free_bytes(), units * kUnit);
          continue;
        }
        for (uint64_t i = 0; i < units; ++i) {
          ASSERT_FALSE(used[offset / kUnit + i]);
          used[offset / kUnit + i] = true;
        }
        used_units += units;
      } else if (random.OneIn(4)) {
        const uint64_t start = random.Uniform(kUnits);
        const uint64_t units = 1 + random.Uniform(5);
        bool good = start + units <= kUnits;
        for (uint64_t i = 0; good && i < units; ++i) good = !used[start + i];
        ASSERT_EQ(allocator.IsFree(start * kUnit, units * kUnit), good);
        ASSERT_EQ(allocator.Take(start * kUnit, units * kUnit - random.Uniform(kUnit)).ok(), good);
        if (!good) continue;
        for (uint64_t i = 0; i < units; ++i) used[start + i] = true;
        used_units += units;
      } else {
        const uint64_t start = random.Uniform(kUnits);
        const uint64_t units = 1 + random.Uniform(10);
        bool good = start + units <= kUnits;
        for (uint64_t i = 0; good && i < units; ++i) good = used[start + i];
        ASSERT_EQ(allocator.Free(start * kUnit, units * kUnit).ok(), good);
        if (!good) continue;
        for (uint64_t i = 0; i < units; ++i) used[start + i] = false;
        used_units -= units;
      }
      ASSERT_EQ(allocator.used_bytes(), used_units * kUnit);
      ASSERT_TRUE(allocator.CheckInvariants().ok()) << allocator.CheckInvariants().ToString();
    }
  }
}

}  // namespace
}  // namespace dlsm
