#include "benchmarks/key_generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

namespace dlsm::bench {
namespace {

// Fails if the hand-written digits are not those of printf, whatever the size.
TEST(KeyFormatterTest, WritesWhatPrintfWould) {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t index = random.Skewed(63);
    char expected[32];
    std::snprintf(expected, sizeof(expected), "%0*llu", 20, static_cast<unsigned long long>(index));
    KeyFormatter formatter(20);
    EXPECT_EQ(formatter.Format(index).ToString(), expected);
  }
}

TEST(KeyFormatterTest, FillsItsSizeExactly) {
  KeyFormatter one(1), three(3), four(4);
  EXPECT_EQ(one.Format(7).ToString(), "7");
  EXPECT_EQ(three.Format(123).ToString(), "123");
  EXPECT_EQ(three.Format(0).ToString(), "000");
  EXPECT_EQ(four.Format(123).ToString(), "0123");
  EXPECT_EQ(KeyBytesMin(1), 1u);
  EXPECT_EQ(KeyBytesMin(10), 1u);
  EXPECT_EQ(KeyBytesMin(11), 2u);
  EXPECT_EQ(KeyBytesMin(1'000'000), 6u);
}

// Fails if a key that readmissing asks for could exist.
TEST(KeyFormatterTest, AbsentKeysAreOfNoIndex) {
  std::set<std::string> present;
  KeyFormatter formatter(4);
  for (uint64_t i = 0; i < 2000; ++i) present.insert(formatter.Format(i).ToString());
  for (uint64_t i = 0; i < 2000; ++i) {
    const std::string absent = formatter.FormatAbsent(i).ToString();
    EXPECT_EQ(absent.size(), 4u);
    EXPECT_FALSE(present.contains(absent)) << absent;
  }
}

TEST(PermutationTest, IsABijection) {
  for (const uint64_t n : {1u, 2u, 3u, 4u, 5u, 100u, 1023u, 1024u, 1025u, 100'003u}) {
    const Permutation permutation(n, 17);
    std::vector<bool> seen(n, false);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t to = permutation.Map(i);
      ASSERT_LT(to, n);
      ASSERT_FALSE(seen[to]) << "two indexes go to " << to << " of " << n;
      seen[to] = true;
    }
  }
}

// Fails if a permutation keeps the order: about half of all neighbours must change places.
TEST(PermutationTest, LeavesNoOrder) {
  constexpr uint64_t kNum = 100'000;
  const Permutation permutation(kNum, 3);
  uint64_t ascents = 0;
  for (uint64_t i = 0; i + 1 < kNum; ++i) {
    ascents += permutation.Map(i) < permutation.Map(i + 1) ? 1u : 0u;
  }
  EXPECT_GT(ascents, kNum * 48 / 100);
  EXPECT_LT(ascents, kNum * 52 / 100);
}

std::vector<uint64_t> CountSamples(const ZipfSampler& sampler, uint64_t n, uint64_t samples) {
  std::vector<uint64_t> counts(n, 0);
  Random random(5);
  for (uint64_t i = 0; i < samples; ++i) ++counts.at(sampler.Sample(random));
  return counts;
}

// Fails if any rank's share is off by more than five standard deviations.
TEST(ZipfSamplerTest, SharesAreThoseOfTheLaw) {
  constexpr uint64_t kSamples = 2'000'000;
  for (const double theta : {0.5, 0.99, 1.0, 1.2, 3.0}) {
    for (const uint64_t n : {1u, 2u, 1000u}) {
      const auto counts = CountSamples(ZipfSampler(n, theta), n, kSamples);
      double zeta = 0;
      for (uint64_t r = 0; r < n; ++r) zeta += std::pow(static_cast<double>(r + 1), -theta);
      for (uint64_t r = 0; r < n; ++r) {
        const double share = std::pow(static_cast<double>(r + 1), -theta) / zeta;
        const double expected = share * kSamples;
        EXPECT_NEAR(static_cast<double>(counts[r]), expected, 5 * std::sqrt(expected) + 5)
            << "rank " << r << " of " << n << ", theta " << theta;
      }
    }
  }
}

// Fails if the hot keys of zipfian lie together, or those of latest are not the last.
TEST(KeyChooserTest, DistributionsAreWhatTheirNamesSay) {
  constexpr uint64_t kNum = 100'000;
  constexpr int kDraws = 200'000;
  const auto share_in_last_percent = [&](Distribution distribution) {
    const KeyChooser chooser(kNum, distribution, 0.99);
    Random random(9);
    int hits = 0;
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t index = chooser.Choose(random);
      EXPECT_LT(index, kNum);
      hits += index >= kNum - kNum / 100 ? 1 : 0;
    }
    return static_cast<double>(hits) / kDraws;
  };
  EXPECT_NEAR(share_in_last_percent(Distribution::kUniform), 0.01, 0.002);
  EXPECT_LT(share_in_last_percent(Distribution::kZipfian), 0.15);
  EXPECT_NEAR(share_in_last_percent(Distribution::kLatest), 0.61, 0.03);
}

}  // namespace
}  // namespace dlsm::bench
