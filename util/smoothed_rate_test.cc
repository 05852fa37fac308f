#include "util/smoothed_rate.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SmoothedRate::Clock::time_point kStart = SmoothedRate::Clock::time_point() + seconds(1000);

TEST(SmoothedRateTest, IsBytesByTime) {
  SmoothedRate rate;
  for (int i = 0; i < 10; ++i) rate.Add(1000, milliseconds(1 + i % 2), kStart);
  EXPECT_NEAR(static_cast<double>(rate.BytesPerSecond(kStart)), 1e6 / 1.5, 1e6 / 50);
}

// Fails if a moment's luck counts as a rate, or if a rate of long ago does.
TEST(SmoothedRateTest, IsUnknownBeforeAndLongAfter) {
  SmoothedRate rate;
  EXPECT_EQ(rate.BytesPerSecond(kStart), 0u);
  rate.Add(1000, std::chrono::microseconds(900), kStart);
  EXPECT_EQ(rate.BytesPerSecond(kStart), 0u);
  rate.Add(1000, milliseconds(1), kStart);
  EXPECT_GT(rate.BytesPerSecond(kStart), 0u);
  EXPECT_GT(rate.BytesPerSecond(kStart + seconds(59)), 0u);
  EXPECT_EQ(rate.BytesPerSecond(kStart + seconds(61)), 0u);
  // What is forgotten does not come back with what is new.
  rate.Add(5000, milliseconds(10), kStart + seconds(100));
  EXPECT_NEAR(static_cast<double>(rate.BytesPerSecond(kStart + seconds(100))), 500'000, 10);
}

// Fails if one slow moment decides, or if a lasting change is not noticed in some seconds.
TEST(SmoothedRateTest, FollowsSlowly) {
  SmoothedRate rate;
  for (int i = 0; i < 1000; ++i) rate.Add(100'000, milliseconds(10), kStart);  // 10 MB/s.
  rate.Add(10'000, milliseconds(10), kStart);
  EXPECT_GT(rate.BytesPerSecond(kStart), 9'500'000u);
  for (int i = 0; i < 600; ++i) rate.Add(10'000, milliseconds(10), kStart);  // 1 MB/s, for 6 s.
  EXPECT_LT(rate.BytesPerSecond(kStart), 1'800'000u);
}

}  // namespace
}  // namespace dlsm
