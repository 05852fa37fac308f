#include "db/tree/split_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "db/test/fake_table_testing.h"

namespace dlsm {
namespace {

const InternalKeyComparator kBytewise(BytewiseComparator());

// Fails if keys are not ascending, lie outside the tables, or are more than were asked for.
TEST(SplitKeysTest, AscendWithinTheTables) {
  const std::vector<TableRef> tables = MakeFakeTables({{1, "key0", "key5"}, {2, "key2", "key9"}});
  for (const size_t parts : {2u, 3u, 16u}) {
    const std::vector<std::string> keys = SplitKeys(kBytewise, tables, parts);
    EXPECT_LT(keys.size(), parts);
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_GT(keys[i], i == 0 ? std::string("key0") : keys[i - 1]);
      EXPECT_LE(keys[i], "key9\xff");
    }
  }
}

// Fails if there is nothing to divide and keys come all the same.
TEST(SplitKeysTest, AreNoneWhereThereIsNothingToDivide) {
  EXPECT_TRUE(SplitKeys(kBytewise, {}, 4).empty());
  EXPECT_TRUE(SplitKeys(kBytewise, MakeFakeTables({{1, "a", "b"}}), 1).empty());
  EXPECT_TRUE(SplitKeys(kBytewise, MakeFakeTables({{1, "same", "same"}}), 4).empty());
}

// Fails if an order of the user's own gets keys that are none: they may mean nothing in it.
TEST(SplitKeysTest, AreFirstKeysInOtherOrders) {
  const InternalKeyComparator reverse(ReverseBytewiseComparator());
  const std::vector<TableRef> tables =
      MakeFakeTables({{1, "z", "y"}, {2, "m", "l"}, {3, "c", "a"}, {4, "m", "b"}});
  EXPECT_EQ(SplitKeys(reverse, tables, 3), (std::vector<std::string>{"m", "c"}));
}

}  // namespace
}  // namespace dlsm
