#include "util/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "util/random.h"

namespace dlsm {
namespace {

TEST(HistogramTest, EmptyIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.Mean(), 0);
  EXPECT_EQ(histogram.Percentile(50), 0);
}

// Fails if a value falls into a bucket whose middle is more than 1% away.
TEST(HistogramTest, EveryMagnitudeIsWithinOnePercent) {
  Random random(11);
  std::vector<uint64_t> values = {0, 1, 127, 128, 129, std::numeric_limits<uint64_t>::max()};
  for (int i = 0; i < 100000; ++i) values.push_back(random.Next() >> random.Uniform(64));
  for (const uint64_t value : values) {
    // A neighbour on each side keeps minimum and maximum from correcting the answer.
    Histogram histogram;
    histogram.Add(0);
    histogram.Add(value);
    histogram.Add(std::numeric_limits<uint64_t>::max());
    const auto exact = static_cast<double>(value);
    ASSERT_NEAR(histogram.Percentile(50), exact, exact * 0.01) << value;
  }
}

TEST(HistogramTest, PercentilesOfRandomValues) {
  Random random(12);
  Histogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 100001; ++i) {
    values.push_back(static_cast<uint64_t>(std::exp(random.NextDouble() * 15)));
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto index = static_cast<size_t>(percent / 100 * static_cast<double>(values.size() - 1));
    const auto exact = static_cast<double>(values[index]);
    EXPECT_NEAR(histogram.Percentile(percent), exact, exact * 0.02 + 1) << percent;
  }
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.Percentile(100), static_cast<double>(values.back()));
}

TEST(HistogramTest, MergeIsTheSumOfParts) {
  Random random(13);
  Histogram whole;
  Histogram parts[3];
  for (int i = 0; i < 30000; ++i) {
    const uint64_t value = random.Skewed(40);
    whole.Add(value);
    parts[i % 3].Add(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.ToString(), whole.ToString());
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_DOUBLE_EQ(merged.Mean(), whole.Mean());
  merged.Clear();
  EXPECT_EQ(merged.count(), 0u);
}

}  // namespace
}  // namespace dlsm
