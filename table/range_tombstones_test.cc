#include "table/range_tombstones.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "dLSM/comparator.h"
#include "table/version_rule.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<SequenceNumber>;

const InternalKeyComparator kOrder{BytewiseComparator()};

std::vector<RangeFragment> FragmentsOf(std::vector<RangeTombstone> tombstones,
                                       const Numbers& snapshots = {}) {
  return RangeTombstones::Fragments(kOrder, /*older=*/nullptr, std::move(tombstones), snapshots);
}

TableMeta Table(const std::string& smallest, const std::string& largest, SequenceNumber least,
                SequenceNumber most, SequenceNumber applied = 0) {
  TableMeta meta;
  AppendInternalKey(&meta.smallest, smallest, most, ValueType::kValue);
  AppendInternalKey(&meta.largest, largest, least, ValueType::kValue);
  meta.sequence_min = least;
  meta.sequence_max = most;
  meta.tombstones_applied = applied;
  return meta;
}

TEST(RangeTombstonesTest, FragmentsAreDisjoint) {
  const std::vector<RangeFragment> fragments =
      FragmentsOf({{"a", "m", 9}, {"f", "t", 5}}, /*snapshots=*/{6});
  const std::vector<RangeFragment> expected = {
      {"a", "f", {9}}, {"f", "m", {9, 5}}, {"m", "t", {5}}};
  EXPECT_EQ(fragments, expected);
  EXPECT_OK(RangeTombstones::CheckFragments(*BytewiseComparator(), fragments));
}

TEST(RangeTombstonesTest, TheNewestOfAStripeStandsForAll) {
  const std::vector<RangeFragment> expected = {{"a", "m", {9}}, {"m", "t", {5}}};
  EXPECT_EQ(FragmentsOf({{"a", "m", 9}, {"f", "t", 5}}), expected);
  EXPECT_EQ(FragmentsOf({{"a", "b", 9}, {"a", "b", 7}, {"a", "b", 5}}, {3, 8}).front().sequences,
            Numbers({9, 7}));
}

TEST(RangeTombstonesTest, NeighboursWithTheSameNumbersAreOne) {
  const std::vector<RangeFragment> expected = {{"a", "z", {9}}};
  EXPECT_EQ(FragmentsOf({{"a", "z", 9}, {"c", "d", 5}, {"e", "f", 6}}), expected);
  EXPECT_TRUE(FragmentsOf({{"a", "a", 9}, {"c", "b", 9}}).empty());
}

TEST(RangeTombstonesTest, SaysWhatTablesNeed) {
  const RangeTombstones all(kOrder, FragmentsOf({{"c", "f", 20}, {"f", "k", 10}}));
  EXPECT_EQ(all.NewestFor(Table("a", "b", 1, 5)), 0U);
  EXPECT_EQ(all.NewestFor(Table("a", "c", 1, 5)), 20U);
  EXPECT_EQ(all.NewestFor(Table("k", "z", 1, 5)), 0U);
  EXPECT_EQ(all.NewestFor(Table("g", "h", 11, 12)), 0U) << "all is newer";
  EXPECT_EQ(all.NewestFor(Table("a", "z", 1, 30, /*applied=*/20)), 0U);
  EXPECT_TRUE(all.HideAll(Table("c", "e", 1, 19), Numbers()));
  EXPECT_FALSE(all.HideAll(Table("c", "e", 1, 20), Numbers()));
  EXPECT_TRUE(all.HideAll(Table("d", "j", 1, 9), Numbers())) << "by two that touch";
  EXPECT_FALSE(all.HideAll(Table("d", "k", 1, 9), Numbers())) << "the end is not part of it";
  EXPECT_FALSE(all.HideAll(Table("c", "e", 5, 9), Numbers({7}))) << "a snapshot sees some";
  EXPECT_TRUE(all.HideAll(Table("c", "e", 5, 9), Numbers({3, 20})));
}

TEST(RangeTombstonesTest, RefusesWhatIsMalformed) {
  const std::vector<std::vector<RangeFragment>> malformed = {
      {{"b", "a", {1}}},
      {{"a", "a", {1}}},
      {{"a", "b", {}}},
      {{"a", "b", {1, 2}}},
      {{"a", "b", {1, 1}}},
      {{"a", "b", {0}}},
      {{"a", "b", {kSequenceNumberMax + 1}}},
      {{"a", "c", {1}}, {"b", "d", {1}}},
      {{"c", "d", {1}}, {"a", "b", {1}}},
  };
  for (const std::vector<RangeFragment>& fragments : malformed) {
    EXPECT_TRUE(RangeTombstones::CheckFragments(*BytewiseComparator(), fragments).IsCorruption());
  }
}

// Beside a list of all that there ever were.
TEST(RangeTombstonesTest, HidesAsTheListDoes) {
  Random random(7);
  const auto key = [&random] {
    return std::string(1, static_cast<char>('a' + random.Uniform(20)));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<RangeTombstone> list;
    Numbers snapshots;
    for (SequenceNumber number = 1; number <= 30; ++number) {
      if (random.OneIn(5)) {
        snapshots.push_back(number);
      } else if (random.OneIn(2)) {
        list.push_back({key(), key(), number});
      }
    }
    const size_t half = list.size() / 2;
    const std::vector<RangeTombstone> first(list.begin(),
                                            list.begin() + static_cast<ptrdiff_t>(half));
    const RangeTombstones older(kOrder, FragmentsOf(first, snapshots));
    const RangeTombstones all(
        kOrder,
        RangeTombstones::Fragments(
            kOrder, &older, {list.begin() + static_cast<ptrdiff_t>(half), list.end()}, snapshots));
    ASSERT_OK(RangeTombstones::CheckFragments(*BytewiseComparator(), all.fragments()));
    snapshots.push_back(kSequenceNumberMax);
    for (char c = 'a'; c <= 'u'; ++c) {
      const std::string at(1, c);
      for (const SequenceNumber snapshot : snapshots) {
        SequenceNumber newest = 0;
        for (const RangeTombstone& each : list) {
          if (each.begin <= at && at < each.end && each.sequence <= snapshot)
            newest = each.sequence;
        }
        ASSERT_EQ(all.NewestAt(at, snapshot), newest) << at << " at " << snapshot;
      }
    }
    RangeTombstoneCursor cursor(kOrder, all);
    for (int i = 0; i < 50; ++i) {
      const std::string at = key();
      ASSERT_EQ(NewestOf(cursor.At(at), kSequenceNumberMax), all.NewestAt(at, kSequenceNumberMax));
    }
  }
}

std::string Version(const std::string& user_key, SequenceNumber sequence) {
  std::string key;
  AppendInternalKey(&key, user_key, sequence, ValueType::kValue);
  return key;
}

TEST(RangeTombstonesTest, TheRuleDropsWhatIsHiddenFromAll) {
  const Numbers snapshots = {7};
  const RangeTombstones all(kOrder, FragmentsOf({{"a", "c", 10}, {"b", "c", 5}}, snapshots));
  VersionRule rule(kOrder, snapshots, /*older=*/nullptr, &all);
  EXPECT_FALSE(rule.Keep(Version("a", 9), /*same=*/false));
  EXPECT_TRUE(rule.Keep(Version("a", 6), /*same=*/true)) << "the snapshot sees it";
  EXPECT_FALSE(rule.Keep(Version("a", 4), /*same=*/true)) << "shadowed";
  EXPECT_TRUE(rule.Keep(Version("b", 11), /*same=*/false)) << "newer";
  EXPECT_FALSE(rule.Keep(Version("b", 3), /*same=*/true)) << "hidden from the snapshot, too";
  EXPECT_TRUE(rule.Keep(Version("c", 3), /*same=*/false)) << "behind the end";
  EXPECT_EQ(rule.hidden(), 2U);
  EXPECT_EQ(AppliedUpTo(10, snapshots), 7U);
  EXPECT_EQ(AppliedUpTo(10, Numbers()), 10U);
}

}  // namespace
}  // namespace dlsm
