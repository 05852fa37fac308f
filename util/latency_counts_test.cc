#include "util/latency_counts.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

HistogramData DataOf(const LatencyCounts& counts) {
  LatencySums sums;
  counts.AddTo(&sums);
  return sums.Data();
}

// Fails if a time is in a bucket that does not have it, or a bucket is wider than an eighth.
TEST(LatencyCountsTest, BucketsAreNarrowAndInOrder) {
  uint64_t lower = 0;
  for (size_t bucket = 0; bucket < LatencyBuckets::kBounded; ++bucket) {
    const uint64_t upper = LatencyBuckets::UpperBound(bucket);
    ASSERT_GT(upper, lower);
    ASSERT_EQ(LatencyBuckets::Of(lower + 1), bucket);
    ASSERT_EQ(LatencyBuckets::Of(upper), bucket);
    ASSERT_LE(upper - lower, lower / 8 + 1);
    lower = upper;
  }
  EXPECT_EQ(lower, uint64_t{1} << LatencyBuckets::kPowerMax);
  EXPECT_EQ(LatencyBuckets::Of(0), 0u);
  EXPECT_EQ(LatencyBuckets::Of(lower + 1), LatencyBuckets::kBounded);
  EXPECT_EQ(LatencyBuckets::Of(UINT64_MAX), LatencyBuckets::kBounded);
}

// Fails if counts by powers of two are not exact, on both sides of a power.
TEST(LatencyCountsTest, PowersAreExact) {
  LatencyCounts counts;
  for (size_t power = 0; power < HistogramData::kPowers; ++power) {
    counts.Add(uint64_t{1} << power);
    counts.Add((uint64_t{1} << power) + 1);
  }
  const HistogramData data = DataOf(counts);
  EXPECT_EQ(data.count, 2 * HistogramData::kPowers);
  EXPECT_EQ(data.at_most[0], 1u);
  EXPECT_EQ(data.at_most[1], 3u);  // 1, 2 and 2 of 2^0 + 1.
  for (size_t power = 2; power < HistogramData::kPowers; ++power) {
    EXPECT_EQ(data.at_most[power], 2 * power + 1) << power;
  }
}

// Fails if percentiles are off by more than a bucket.
TEST(LatencyCountsTest, PercentilesAreNear) {
  LatencyCounts counts;
  for (uint64_t nanos = 1; nanos <= 10'000; ++nanos) counts.Add(nanos);
  const HistogramData data = DataOf(counts);
  EXPECT_EQ(data.count, 10'000u);
  EXPECT_EQ(data.sum, 50'005'000u);
  EXPECT_DOUBLE_EQ(data.average, 5000.5);
  EXPECT_NEAR(data.median, 5000, 5000 / 8.0);
  EXPECT_NEAR(data.percentile95, 9500, 9500 / 8.0);
  EXPECT_NEAR(data.percentile99, 9900, 9900 / 8.0);
  EXPECT_NEAR(data.percentile999, 9990, 9990 / 8.0);
  EXPECT_NEAR(data.max, 10'000, 10'000 / 8.0);
  EXPECT_EQ(data.at_most[10], 1024u);
}

// Fails if calls that were added together do not count each.
TEST(LatencyCountsTest, CountsSeveralCallsAtOnce) {
  LatencyCounts counts;
  counts.Add(100, 7);
  EXPECT_EQ(DataOf(counts).count, 7u);
  EXPECT_EQ(DataOf(counts).sum, 700u);
  EXPECT_EQ(DataOf(LatencyCounts()).count, 0u);
  EXPECT_EQ(DataOf(LatencyCounts()).max, 0);
}

}  // namespace
}  // namespace dlsm
