#include "util/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace dlsm {
namespace {

// Fails if the hash changes: filters and indexes of tables that exist would not find their keys.
TEST(HashTest, IsPartOfTheFormats) {
  EXPECT_EQ(Hash64(Slice()), 0x2d06800538d394c2u);
  EXPECT_EQ(Hash64("a"), XXH3_64bits("a", 1));
  EXPECT_EQ(Hash64(std::string(1000, 'x')), XXH3_64bits(std::string(1000, 'x').data(), 1000));
  EXPECT_NE(Hash64("a"), Hash64("b"));
}

}  // namespace
}  // namespace dlsm
