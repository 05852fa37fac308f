// What the policies share.
#include "db/merge_policy.h"

#include <gtest/gtest.h>

#include <vector>

#include "db/fake_table_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

TEST(OldestOfTest, TakesTheLastOnes) {
  const std::vector<TableRef> tables = MakeFakeTables(
      {{4, "a", "z", 40, 49}, {3, "a", "z", 30, 39}, {2, "a", "z", 20, 29}, {1, "a", "z", 10, 19}});
  EXPECT_EQ(NumbersOf(OldestOf(tables, 0)), (Numbers{4, 3, 2, 1}));
  EXPECT_EQ(NumbersOf(OldestOf(tables, 9)), (Numbers{4, 3, 2, 1}));
  EXPECT_EQ(NumbersOf(OldestOf(tables, 2)), (Numbers{2, 1}));
}

// Fails if one of a memtable's tables is merged with older ones and another is not: what comes of
// it has newer entries than the one that is left in front of it, which followers and reopening take
// for a damaged tree.
TEST(OldestOfTest, TheTablesOfOneMemtableStayTogether) {
  const std::vector<TableRef> tables =
      MakeFakeTables({{6, "a", "z", 50, 59},
                      {5, "a", "m", 41, 49},  // The tables of one memtable,
                      {4, "n", "r", 30, 48},  // whose numbers are
                      {3, "s", "z", 33, 44},  // mixed.
                      {2, "a", "z", 20, 29},
                      {1, "a", "z", 10, 19}});
  EXPECT_EQ(NumbersOf(OldestOf(tables, 2)), (Numbers{2, 1}));
  EXPECT_EQ(NumbersOf(OldestOf(tables, 3)), (Numbers{5, 4, 3, 2, 1}));
  EXPECT_EQ(NumbersOf(OldestOf(tables, 4)), (Numbers{5, 4, 3, 2, 1}));
  EXPECT_EQ(NumbersOf(OldestOf(tables, 5)), (Numbers{5, 4, 3, 2, 1}));
}

// Fails if a table that is newer than all that is taken hides another one of the same memtable.
TEST(OldestOfTest, ATableInBetweenMayBeNewer) {
  const std::vector<TableRef> tables = MakeFakeTables({{5, "a", "z", 50, 59},
                                                       {4, "a", "m", 15, 45},
                                                       {3, "n", "r", 25, 40},
                                                       {2, "s", "z", 10, 20},
                                                       {1, "a", "z", 1, 9}});
  EXPECT_EQ(NumbersOf(OldestOf(tables, 1)), (Numbers{1}));
  EXPECT_EQ(NumbersOf(OldestOf(tables, 2)), (Numbers{4, 3, 2, 1}));
}

}  // namespace
}  // namespace dlsm
