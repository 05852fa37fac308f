#include "db/tree/level_shape.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "db/test/bytewise_order_testing.h"
#include "db/tree/level_testing.h"
#include "db/tree/version.h"

namespace dlsm {
namespace {

// Fails if a new database does not get the levels of its style.
TEST(LevelShapeTest, StartsEmpty) {
  for (const auto& [style, order] : {std::pair{CompactionStyle::kLeveled, kByKey},
                                     std::pair{CompactionStyle::kGuards, kNewestFirst},
                                     std::pair{CompactionStyle::kFullLeveling, kByKey},
                                     std::pair{CompactionStyle::kTiered, kNewestFirst}}) {
    std::vector<Level> levels;
    ASSERT_OK(ShapeLevels(Bytewise(), style, 3, &levels));
    ASSERT_EQ(levels.size(), 3u);
    EXPECT_EQ(levels[0].sentinel().order, kNewestFirst);
    EXPECT_EQ(levels[2].sentinel().order, order);
  }
}

// Fails if levels that are added lack guards that the ones above have.
TEST(LevelShapeTest, NewLevelsGetTheGuardsOfThoseAbove) {
  std::vector<Level> levels = {
      Level(kNewestFirst),
      MakeLevel({{"", kNewestFirst, {}}, {"g", kNewestFirst, {{1, "g", "k"}}}})};
  ASSERT_OK(ShapeLevels(Bytewise(), CompactionStyle::kGuards, 4, &levels));
  EXPECT_TRUE(levels[3].HasGuard(Bytewise(), "g"));
  EXPECT_OK(Version(Bytewise(), levels).CheckInvariants());
}

// Fails if two leveled levels are taken for history in order of sequence numbers, or if one is not.
TEST(LevelShapeTest, ALeveledTreeNeedsOneLevelToBecomeRuns) {
  const Level upper = MakeLevel({{"", kByKey, {{1, "a", "f", 5, 90}, {2, "g", "k", 70, 8}}}});
  const Level lower = MakeLevel({{"", kByKey, {{3, "a", "k", 4, 60}}}});
  for (const CompactionStyle style : {CompactionStyle::kGuards, CompactionStyle::kTiered}) {
    std::vector<Level> two = {Level(kNewestFirst), upper, lower};
    EXPECT_TRUE(ShapeLevels(Bytewise(), style, 3, &two).IsInvalidArgument());
    std::vector<Level> one = {Level(kNewestFirst), upper, Level(kByKey)};
    ASSERT_OK(ShapeLevels(Bytewise(), style, 3, &one));
    EXPECT_EQ(NumbersOf(one[1].AllTables()), (std::vector<uint64_t>{1, 2}));
    EXPECT_OK(Version(Bytewise(), one).CheckInvariants());
  }
}

// Fails if guards of which one has gone down and another has not are taken for levels of runs: what
// those merge down as a whole, old keys of one guard among it, would lie in front of newer tables
// of the other, and no manifest with such tables can be opened. Or if one level is refused, or
// levels of which each is newer than the next, or the guards that they were.
TEST(LevelShapeTest, GuardsInSeveralLevelsNeedThemInOrderToBecomeRuns) {
  const auto level_of = [](std::vector<FakeTable> sentinel, std::vector<FakeTable> guard) {
    return MakeLevel(
        {{"", kNewestFirst, std::move(sentinel)}, {"n", kNewestFirst, std::move(guard)}});
  };
  const Level empty = level_of({}, {});
  const Level stayed = level_of({{1, "a", "m", 5, 10}}, {});
  const Level newer = level_of({{1, "a", "m", 61, 70}}, {});
  const Level went_down = level_of({}, {{2, "n", "z", 11, 60}});
  const auto shape = [](CompactionStyle style, const Level& upper, const Level& lower) {
    std::vector<Level> levels = {Level(kNewestFirst), upper, lower};
    const Status status = ShapeLevels(Bytewise(), style, 3, &levels);
    if (status.ok()) {
      EXPECT_OK(Version(Bytewise(), levels).CheckInvariants());
    }
    return status;
  };
  for (const CompactionStyle style : {CompactionStyle::kTiered, CompactionStyle::kSizeTiered}) {
    const Status refused = shape(style, stayed, went_down);
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
    EXPECT_NE(refused.ToString().find("CompactRange"), std::string::npos) << refused.ToString();
    EXPECT_OK(shape(style, newer, went_down));
    EXPECT_OK(shape(style, stayed, empty));
    EXPECT_OK(shape(style, empty, went_down));
  }
  EXPECT_OK(shape(CompactionStyle::kGuards, stayed, went_down));
}

// Fails if what was leveled becomes one guard, all of which each merge would have to take.
TEST(LevelShapeTest, ALeveledLevelIsDividedIntoGuards) {
  std::vector<FakeTable> tables;
  for (char c = 'a'; c <= 'j'; ++c) {
    tables.push_back({static_cast<uint64_t>(c), std::string(1, c) + "1", std::string(1, c) + "9"});
  }
  std::vector<Level> levels = {Level(kNewestFirst), MakeLevel({{"", kByKey, tables}})};
  ASSERT_OK(ShapeLevels(Bytewise(), CompactionStyle::kGuards, 3, &levels));
  EXPECT_EQ(levels[1].guards().size(), 2u);
  EXPECT_EQ(levels[1].guards().at(0).key, "e1");
  EXPECT_TRUE(levels[2].HasGuard(Bytewise(), "i1"));
  EXPECT_OK(Version(Bytewise(), levels).CheckInvariants());
}

// Fails if overlapping runs enter a level that must not have any, or guards stay in one.
TEST(LevelShapeTest, RunsMustBeDisjointToBecomeLeveled) {
  const Level one_run = MakeLevel(
      {{"", kNewestFirst, {{1, "a", "c"}}}, {"g", kNewestFirst, {{2, "g", "k"}, {3, "m", "p"}}}});
  std::vector<Level> fit = {Level(kNewestFirst), one_run};
  ASSERT_OK(ShapeLevels(Bytewise(), CompactionStyle::kLeveled, 2, &fit));
  EXPECT_TRUE(fit[1].guards().empty());
  EXPECT_EQ(NumbersOf(fit[1].AllTables()), (std::vector<uint64_t>{1, 2, 3}));
  const Level two_runs =
      MakeLevel({{"", kNewestFirst, {{1, "a", "k", 9, 9}, {2, "g", "p", 3, 3}}}});
  std::vector<Level> unfit = {Level(kNewestFirst), two_runs};
  EXPECT_TRUE(ShapeLevels(Bytewise(), CompactionStyle::kLeveled, 2, &unfit).IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm
