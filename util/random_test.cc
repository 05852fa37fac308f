#include "util/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace dlsm {
namespace {

// Fails if a recorded seed would not repeat a run.
TEST(RandomTest, SameSeedSameNumbers) {
  Random a(42);
  Random b(42);
  Random other(43);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_EQ(a.Bytes(10), b.Bytes(10));
  EXPECT_NE(a.Next(), other.Next());
}

TEST(RandomTest, UniformIsUniform) {
  Random random(1);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100000; ++i) ++counts[random.Uniform(counts.size())];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(RandomTest, StaysInItsBounds) {
  Random random(2);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double number = random.NextDouble();
    ASSERT_GE(number, 0);
    ASSERT_LT(number, 1);
    sum += number;
    ASSERT_LT(random.Skewed(10), 1024u);
    ASSERT_EQ(random.Uniform(1), 0u);
    ASSERT_TRUE(random.OneIn(1));
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.01);
}

TEST(RandomTest, OneInIsOneIn) {
  Random random(3);
  int hits = 0;
  for (int i = 0; i < 100000; ++i) hits += random.OneIn(20) ? 1 : 0;
  EXPECT_NEAR(hits, 5000, 400);
}

}  // namespace
}  // namespace dlsm
