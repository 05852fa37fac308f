#include "table/digest_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "util/random.h"

namespace dlsm {
namespace {

void ExpectCounts(const std::vector<uint64_t>& digests) {
  DigestTree tree;
  tree.Build(digests.size(), [&](size_t i) { return digests[i]; });
  ASSERT_EQ(tree.size(), digests.size());
  for (size_t i = 0; i < digests.size(); ++i) ASSERT_EQ(tree[i], digests[i]) << i;
  std::vector<uint64_t> asked = {0, 1, UINT64_MAX - 1, UINT64_MAX};
  for (const uint64_t digest : digests) {
    asked.insert(asked.end(), {digest - 1, digest, digest + 1});
  }
  for (const uint64_t digest : asked) {
    const auto below = std::ranges::lower_bound(digests, digest) - digests.begin();
    ASSERT_EQ(tree.CountBelow(digest), static_cast<size_t>(below))
        << digest << " among " << digests.size();
  }
}

// Fails if a search leaves a level by the wrong block, at sizes around those at which a level is
// full.
TEST(DigestTreeTest, CountsAsASortedArrayDoes) {
  Random random(301);
  std::vector<size_t> sizes = {511, 512, 513, 575, 576, 577, 4095, 4096, 4097, 5000};
  for (size_t size = 0; size < 140; ++size) sizes.push_back(size);
  for (const size_t size : sizes) {
    std::vector<uint64_t> spread(size);
    for (uint64_t& digest : spread) digest = random.Next();
    std::ranges::sort(spread);
    ExpectCounts(spread);
    // Many are equal, and some are the least and the largest that there are.
    std::vector<uint64_t> few(size);
    for (uint64_t& digest : few) digest = random.Uniform(size / 3 + 1);
    for (uint64_t& digest : few) digest = random.OneIn(10) ? UINT64_MAX : digest;
    std::ranges::sort(few);
    ExpectCounts(few);
  }
}

// Fails if something of what was there before is left.
TEST(DigestTreeTest, IsBuiltAnew) {
  DigestTree tree;
  EXPECT_EQ(tree.CountBelow(7), 0u);
  tree.Build(1000, [](size_t i) { return i; });
  EXPECT_EQ(tree.CountBelow(700), 700u);
  tree.Build(3, [](size_t i) { return 10 * i; });
  EXPECT_EQ(tree.size(), 3u);
  EXPECT_EQ(tree.CountBelow(700), 3u);
  EXPECT_LE(tree.resident_bytes(), 64u);
  const DigestTree copy = tree;
  tree.Clear();
  EXPECT_EQ(tree.size(), 0u);
  EXPECT_EQ(tree.CountBelow(700), 0u);
  EXPECT_EQ(copy.CountBelow(20), 2u);
}

}  // namespace
}  // namespace dlsm
