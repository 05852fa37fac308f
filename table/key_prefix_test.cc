#include "table/key_prefix.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlsm {
namespace {

// Fails if two keys are taken for one because of what they share at one end, or read out of bounds.
// (Each lies in a block of its own size.)
TEST(KeyPrefixTest, SameBytesLooksAtAll) {
  for (size_t size = 0; size < 40; ++size) {
    const std::vector<char> one(size, 'k');
    const Slice a(one.data(), one.size());
    const std::vector<char> copy = one;
    EXPECT_TRUE(SameBytes(a, Slice(copy.data(), size)));
    for (size_t at = 0; at < size; ++at) {
      std::vector<char> other = one;
      other[at] = 'l';
      EXPECT_FALSE(SameBytes(a, Slice(other.data(), size))) << size << " bytes, at " << at;
    }
    if (size > 0) {
      EXPECT_FALSE(SameBytes(a, Slice(copy.data(), size - 1)));
    }
  }
}

// Fails if a digest orders two keys otherwise than their bytes do.
TEST(KeyPrefixTest, DigestsKeepTheOrder) {
  const std::vector<std::string> keys = {"",          std::string(1, '\0'), "a", "ab",   "abcdefgh",
                                         "abcdefghi", "abcdefgi",           "b", "\x7f", "\x80",
                                         "\xff\xff",  "\xff\xff\x01"};
  for (size_t i = 1; i < keys.size(); ++i) {
    ASSERT_LT(Slice(keys[i - 1]).compare(Slice(keys[i])), 0);
    EXPECT_LE(Digest(Slice(keys[i - 1])), Digest(Slice(keys[i]))) << i;
  }
}

// Fails if the common prefix goes beyond the shorter key, or stops before the first difference.
TEST(KeyPrefixTest, CommonPrefixEndsAtTheFirstDifference) {
  const std::string a(30, 'x');
  for (size_t at = 0; at <= a.size(); ++at) {
    std::string b = a.substr(0, at);
    EXPECT_EQ(CommonPrefix(Slice(a), Slice(b)), at);
    b += "y and more than eight bytes";
    EXPECT_EQ(CommonPrefix(Slice(a), Slice(b)), at);
  }
}

}  // namespace
}  // namespace dlsm
