// What the policies share.
#include "db/merge/merge_policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "db/merge/room_watch.h"
#include "db/test/fake_table_testing.h"

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

// Merges for room in a full memory node, until there are none. How many tables are left; they
// become one at each merge.
size_t TablesLeftForRoom(MergePolicy* policy, std::shared_ptr<const Version> version) {
  const InternalKeyComparator comparator = version->comparator();
  for (uint64_t number = 100; number < 110; ++number) {
    const auto pick = policy->PickForRoom(*version, {}, RoomLeft{.full = true});
    if (!pick.has_value()) return TablesFrom(*version, 0).size();
    std::vector<TableRef> inputs = pick->inputs;
    inputs.insert(inputs.end(), pick->target_inputs.begin(), pick->target_inputs.end());
    const KeyRange hull = HullOf(comparator, inputs);
    std::vector<TableRef> outputs;
    if (!pick->trivial_move) {
      outputs = MakeFakeTables({{number, hull.smallest, hull.largest, 30, 1}});
    }
    version = version->With(EditOf(*pick, *version, outputs, {}));
  }
  ADD_FAILURE() << "merges that make room do not come to an end";
  return 0;
}

// A single table, newer than one that lies two levels deeper. Fails if writers are refused because
// neither has anything beside it, or in the level between them, with which it could be merged.
TEST(PickForRoomTest, WhatHidesSomethingFarBelowGoesDown) {
  struct Style {
    const char* name;
    std::unique_ptr<MergePolicy> policy;
    Guard::Order order;
  };
  std::vector<Style> styles;
  styles.push_back({"leveled", NewLeveledPolicy({}), Guard::Order::kByKey});
  styles.push_back({"full leveling", NewFullLevelingPolicy({}), Guard::Order::kByKey});
  styles.push_back({"tiered", NewTieredPolicy({}), Guard::Order::kNewestFirst});
  styles.push_back({"guards", NewGuardsPolicy({}), Guard::Order::kNewestFirst});
  const InternalKeyComparator comparator(BytewiseComparator());
  const auto version_of = [&comparator](Guard::Order order, const FakeTable& newer,
                                        const FakeTable& older) {
    std::vector<Level> levels = {Level(Guard::Order::kNewestFirst), Level(order), Level(order)};
    levels[0] = levels[0].With(comparator, {}, MakeFakeTables({newer}));
    levels[2] = levels[2].With(comparator, {}, MakeFakeTables({older}));
    return std::make_shared<const Version>(comparator, std::move(levels));
  };
  for (const Style& style : styles) {
    SCOPED_TRACE(style.name);
    const auto above = version_of(style.order, {2, "c", "d", 30, 20}, {1, "a", "z", 10, 1});
    EXPECT_EQ(TablesLeftForRoom(style.policy.get(), above), 1u);
    const auto beside = version_of(style.order, {2, "x", "z", 30, 20}, {1, "a", "d", 10, 1});
    EXPECT_FALSE(style.policy->PickForRoom(*beside, {}, RoomLeft{.full = true}).has_value())
        << "there is nothing to gain";
  }
}

}  // namespace
}  // namespace dlsm
