#include "memory_node/byte_ranges.h"

#include <gtest/gtest.h>

#include <iterator>
#include <vector>

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

}  // namespace
}  // namespace dlsm
