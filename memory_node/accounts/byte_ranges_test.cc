#include "memory_node/accounts/byte_ranges.h"

#include <gtest/gtest.h>

#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

// A vector of flags must agree with the set after any sequence of calls, and the ranges must be
// joined.
TEST(ByteRangesTest, AgreesWithFlags) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    constexpr uint64_t kBytes = 60;
    ByteRanges ranges;
    std::vector<bool> flags(kBytes, false);
    for (int step = 0; step < 1000; ++step) {
      ByteRange range;
      range.begin = random.Uniform(kBytes);
      range.end = range.begin + random.Uniform(kBytes - range.begin + 1);
      const bool add = random.OneIn(2);
      bool all = true;
      bool any = false;
      for (uint64_t i = range.begin; i < range.end; ++i) {
        all = all && flags[i];
        any = any || flags[i];
      }
      ASSERT_EQ(ranges.Contains(range), all);
      ASSERT_EQ(ranges.Overlaps(range), any);
      if (add) {
        ranges.Add(range);
      } else {
        ranges.Remove(range);
      }
      for (uint64_t i = range.begin; i < range.end; ++i) flags[i] = add;

      uint64_t bytes = 0;
      ByteRanges::Map map;
      for (uint64_t i = 0; i < kBytes; ++i) {
        if (!flags[i]) continue;
        ++bytes;
        if (i > 0 && flags[i - 1]) {
          std::prev(map.end())->second = i + 1;
        } else {
          map[i] = i + 1;
        }
      }
      ASSERT_EQ(ranges.ranges(), map);
      ASSERT_EQ(ranges.bytes(), bytes);
      ASSERT_EQ(ranges.empty(), bytes == 0);
    }
  }
}

// Fails if a range for which there is no memory changes the others, or one that needs none asks.
TEST(ByteRangesTest, WithoutMemoryNothingChanges) {
  ByteRanges ranges;
  ranges.Add({10, 20});
  ranges.Add({30, 40});
  const ByteRanges::Map before = ranges.ranges();
  const port::FailingAllocationsAt failing("byte ranges");
  EXPECT_THROW(ranges.Add(ByteRange{50, 60}), std::bad_alloc);
  EXPECT_THROW(ranges.Remove(ByteRange{12, 14}), std::bad_alloc);
  EXPECT_EQ(ranges.ranges(), before);
  EXPECT_EQ(ranges.bytes(), 20u);
  ranges.Add({20, 30});
  ranges.Remove({0, 15});
  ranges.Remove({35, 50});
  EXPECT_EQ(ranges.ranges(), (ByteRanges::Map{{15, 35}}));
  EXPECT_EQ(ranges.bytes(), 20u);
}

// Fails if ranges that come with their own memory ask for more, or do not make the same set.
TEST(ByteRangesTest, RangesThatBringTheirMemoryNeedNoMore) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto some = [&random] {
      ByteRanges ranges;
      for (int i = 0; i < 10; ++i) {
        const uint64_t begin = random.Uniform(60);
        ranges.Add({begin, begin + random.Uniform(8)});
      }
      return ranges;
    };
    ByteRanges added = random.OneIn(10) ? ByteRanges() : some();
    ByteRanges removed = added;
    ByteRanges others = some();
    ByteRanges expected_added = added;
    expected_added.Add(static_cast<const ByteRanges&>(others));
    ByteRanges expected_removed = removed;
    expected_removed.Remove(others);
    ByteRanges::Holes holes(others.ranges().size());
    const port::FailingAllocationsAt failing("byte ranges");
    removed.Remove(others, &holes);
    added.Add(std::move(others));
    EXPECT_EQ(failing.failed(), 0u);
    EXPECT_EQ(added.ranges(), expected_added.ranges());
    EXPECT_EQ(added.bytes(), expected_added.bytes());
    EXPECT_EQ(removed.ranges(), expected_removed.ranges());
    EXPECT_EQ(removed.bytes(), expected_removed.bytes());
  }
}

}  // namespace
}  // namespace dlsm
