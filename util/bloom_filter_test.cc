#include "util/bloom_filter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "util/coding.h"
#include "util/hash.h"
#include "util/hex_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

std::string Key(uint64_t number) {
  std::string key;
  PutFixed64(&key, number);
  return key;
}

std::string FilterOf(uint64_t keys, int bits_per_key) {
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < keys; ++i) hashes.push_back(Hash64(Key(i)));
  std::string filter;
  BuildBloomFilter(hashes.data(), hashes.size(), bits_per_key, &filter);
  return filter;
}

double FalsePositives(uint64_t keys, const std::string& filter) {
  constexpr int kProbes = 100000;
  int hits = 0;
  for (uint64_t i = 0; i < kProbes; ++i) hits += BloomMayMatch(Hash64(Key(keys + i)), filter);
  return static_cast<double>(hits) / kProbes;
}

// Fails if a key is ever denied: lookups would lose data.
TEST(BloomFilterTest, NoFalseNegatives) {
  for (const int bits : {-1, 1, 2, 5, 10, 16, 40, 1000}) {
    for (const uint64_t keys : {1, 2, 10, 51, 52, 1000, 20000}) {
      const std::string filter = FilterOf(keys, bits);
      for (uint64_t i = 0; i < keys; ++i) {
        ASSERT_TRUE(BloomMayMatch(Hash64(Key(i)), filter)) << bits << " bits, key " << i;
      }
    }
  }
}

// Fails if the probes depend on each other or on the choice of the line.
TEST(BloomFilterTest, FalsePositivesAreAsFewAsPromised) {
  const std::vector<std::pair<int, double>> promised = {{2, 0.42},   {5, 0.11},    {8, 0.026},
                                                        {10, 0.012}, {16, 0.0015}, {20, 0.0005}};
  for (const auto& [bits, most] : promised) {
    for (const uint64_t keys : {1000, 150000}) {
      const double rate = FalsePositives(keys, FilterOf(keys, bits));
      // A filter of few lines varies with its luck.
      EXPECT_LE(rate, keys == 1000 ? most * 1.3 : most) << bits << " bits, " << keys << " keys";
    }
  }
}

TEST(BloomFilterTest, TakesAsManyBitsAsAsked) {
  EXPECT_LE(FilterOf(10000, 10).size(), 10000 * 10 / 8 + 65u);
  EXPECT_LE(FilterOf(1, 10).size(), 65u);
}

TEST(BloomFilterTest, NoKeysMatchNothing) {
  const std::string filter = FilterOf(0, 10);
  EXPECT_FALSE(BloomMayMatch(Hash64("key"), filter));
}

TEST(BloomFilterTest, Appends) {
  const uint64_t hash = Hash64("key");
  std::string filter = "what was there";
  BuildBloomFilter(&hash, 1, 10, &filter);
  ASSERT_EQ(filter.substr(0, 14), "what was there");
  EXPECT_TRUE(BloomMayMatch(hash, Slice(filter.data() + 14, filter.size() - 14)));
}

// Fails if bytes that are no filter are read out of bounds. (Each lies in a block of its own size.)
TEST(BloomFilterTest, HostileBytesAreSafe) {
  const std::string good = FilterOf(100, 10);
  for (size_t length = 0; length < good.size(); ++length) {
    const std::vector<char> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    for (uint64_t i = 0; i < 100; ++i) {
      const Slice filter(cut.data(), cut.size());
      BloomMayMatch(Hash64(Key(i)), filter);
      const BloomLines lines(filter);
      if (lines.empty()) continue;
      const uint64_t hash = Hash64(Key(i));
      BloomBits(hash).MayMatch(lines.LineOf(hash), lines.probes);
    }
  }
  Random random(5);
  for (int round = 0; round < 20000; ++round) {
    const std::string bytes = random.Bytes(random.Uniform(200));
    BloomMayMatch(random.Next(), bytes);
  }
  for (const int probes : {0, 17, 255}) {
    const std::string bytes = std::string(64, '\0') + static_cast<char>(probes);
    EXPECT_TRUE(BloomMayMatch(1, bytes)) << "an unknown encoding must not deny keys";
  }
}

// Fails if a lookup that asks many filters gets other answers than one that asks each by itself;
// the number of probes changes from filter to filter.
TEST(BloomFilterTest, AskingManyIsAskingEach) {
  std::vector<std::string> filters;
  for (const int bits : {1, 5, 14, 14, 40, 10}) filters.push_back(FilterOf(1000, bits));
  filters.push_back(FilterOf(0, 10));
  filters.emplace_back(65, static_cast<char>(17));
  int denied = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const uint64_t hash = Hash64(Key(i));
    BloomBits bits(hash);
    for (const std::string& filter : filters) {
      const BloomLines lines(filter);
      if (lines.empty()) continue;
      const bool may_match = bits.MayMatch(lines.LineOf(hash), lines.probes);
      ASSERT_EQ(may_match, BloomMayMatch(hash, filter)) << i;
      ASSERT_EQ(may_match, BloomBits(hash).MayMatch(lines.LineOf(hash), lines.probes)) << i;
      denied += may_match ? 0 : 1;
    }
  }
  EXPECT_GT(denied, 10000);
  EXPECT_TRUE(BloomLines(filters[6]).empty());
  EXPECT_TRUE(BloomLines(filters[7]).empty());
}

// Fails if the policy and the functions on hashes disagree: builders use one, users the other.
TEST(BloomFilterTest, PolicyIsTheSameFilter) {
  const std::unique_ptr<const FilterPolicy> policy(NewBloomFilterPolicy(10));
  EXPECT_STREQ(policy->Name(), "dlsm.BlockedBloomFilter");
  const std::vector<Slice> keys = {"one", "two", "", "two"};
  std::string filter;
  policy->CreateFilter(keys.data(), static_cast<int>(keys.size()), &filter);
  for (const Slice& key : keys) {
    EXPECT_TRUE(policy->KeyMayMatch(key, filter));
    EXPECT_TRUE(BloomMayMatch(Hash64(key), filter));
  }
  EXPECT_FALSE(policy->KeyMayMatch("three", filter));
}

// The bytes were computed from the layout in bloom_filter.h by another program. Fails if hash,
// line, positions or number of probes change: tables that were written before would deny keys that
// they have.
TEST(BloomFilterTest, BytesArePartOfTheFormats) {
  std::vector<std::string> keys = {"", "a", std::string(40, 'x'), std::string(300, 'y')};
  for (int i = 0; i < 16; ++i) keys.push_back("key" + std::to_string(i));
  const std::vector<Slice> slices(keys.begin(), keys.end());
  const auto filter_of = [&slices](int bits_per_key) {
    std::string filter;
    BloomFilterPolicy(bits_per_key)
        .CreateFilter(slices.data(), static_cast<int>(slices.size()), &filter);
    return Hex(filter);
  };
  EXPECT_EQ(filter_of(10),
            "3500801400a0a1002805c090201000240404210004c810a29011a8e142140cc4030851a002048200"
            "c22c40110007089092818c80440001200020a04c0340320106");
  EXPECT_EQ(filter_of(40),
            "2041f11540a0c104a90780d2641334b40a34024804cc30eb6031aba14d10ecb44209d5a011078253"
            "812c4a01c80c720c93a1a832048000040331a20f0b487a013d2900044000205000004400c0000040"
            "44002114c4c2028098002040060600404300036082001102c26c4214010308900007a48061821120"
            "002090400082442810");
}

TEST(BloomFilterTest, BuiltInIsToldFromUsers) {
  const std::unique_ptr<const FilterPolicy> policy(NewBloomFilterPolicy(12));
  ASSERT_NE(AsBuiltIn(policy.get()), nullptr);
  EXPECT_EQ(AsBuiltIn(policy.get())->bits_per_key(), 12);
  EXPECT_EQ(AsBuiltIn(nullptr), nullptr);
  EXPECT_EQ(AsBuiltIn(Options::kNoFilter), nullptr);
  EXPECT_TRUE(Options::kNoFilter->KeyMayMatch("key", Slice()));
}

}  // namespace
}  // namespace dlsm
