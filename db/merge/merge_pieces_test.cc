#include "db/merge/merge_pieces.h"

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "db/test/policy_simulation_testing.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

// Level 0 has two tables over all keys; level 1 has eight side by side, of a letter each.
//
//   level 0   | 10: a .................. h |
//             |  9: a .................. h |
//   level 1   | 1: a | 2: b | ...   | 8: h |
std::shared_ptr<const Version> LeveledVersion() {
  const InternalKeyComparator comparator(BytewiseComparator());
  std::vector<Level> levels(2);
  levels[1] = Level(Guard::Order::kByKey);
  levels[0] = levels[0].With(
      comparator, {}, MakeFakeTables({{10, "a", "h9", 30, 31, 100}, {9, "a", "h9", 20, 21, 100}}));
  std::vector<TableRef> below;
  for (uint64_t i = 0; i < 8; ++i) {
    const std::string letter(1, static_cast<char>('a' + i));
    below.push_back(MakeFakeTable({i + 1, letter, letter + "9", 1, 2, 20}));
  }
  levels[1] = levels[1].With(comparator, {}, below);
  return std::make_shared<const Version>(comparator, std::move(levels));
}

MergePick WholeLevel0(const Version& version) {
  MergePick pick;
  pick.target_level = 1;
  pick.inputs = version.levels()[0].AllTables();
  pick.target_inputs = version.levels()[1].AllTables();
  return pick;
}

// What rewriting the table makes of it, with numbers from `number` on.
std::shared_ptr<const Version> AfterCut(const Version& version, const MergePick& cut,
                                        uint64_t number) {
  std::vector<TableRef> pieces;
  std::string begin = "a";
  for (const std::string& point : cut.cut_points) {
    const std::string end(1, static_cast<char>(point[0] - 1));
    pieces.push_back(MakeFakeTable({number++, begin, end + "9", number, number, 100 / 6}));
    begin = point;
  }
  pieces.push_back(MakeFakeTable({number++, begin, "h9", number, number, 100 / 6}));
  return version.With(EditOf(cut, version, pieces, {}));
}

// Fails if a step takes more than there is room for, is no step towards the merge, or cuts at other
// keys than the one before, so that nothing ever comes apart.
TEST(MergePiecesTest, CutsTablesOneByOneAndThenMergesColumns) {
  constexpr uint64_t kRoom = 150;
  const std::vector<std::string> boundaries = {"b", "c", "e", "f", "g"};
  std::shared_ptr<const Version> version = LeveledVersion();
  MergePieces pieces;
  for (const uint64_t number : {10, 9}) {
    const auto cut = pieces.Next(*version, WholeLevel0(*version), kRoom, {});
    ASSERT_TRUE(cut.has_value());
    EXPECT_TRUE(cut->cuts_only && cut->in_place() && cut->level == 0);
    EXPECT_EQ(NumbersOf(cut->inputs), Numbers{number});
    EXPECT_EQ(cut->cut_points, boundaries);
    version = AfterCut(*version, *cut, 10 * number);
  }
  const auto column = pieces.Next(*version, WholeLevel0(*version), kRoom, {});
  ASSERT_TRUE(column.has_value());
  EXPECT_FALSE(column->cuts_only);
  EXPECT_EQ(column->target_level, 1u);
  EXPECT_EQ(NumbersOf(column->inputs), (Numbers{105, 95})) << "the last column, newest first";
  EXPECT_EQ(NumbersOf(column->target_inputs), (Numbers{7, 8}));
}

// Fails if a step is taken where not even a single table fits.
TEST(MergePiecesTest, WithoutRoomForATableThereIsNoStep) {
  const std::shared_ptr<const Version> version = LeveledVersion();
  EXPECT_FALSE(MergePieces().Next(*version, WholeLevel0(*version), 19, {}).has_value());
}

struct StyleOfMerges {
  const char* name;
  Guard::Order deeper_order;
  std::unique_ptr<MergePolicy> (*make)();
};

std::unique_ptr<MergePolicy> Leveled() {
  return NewLeveledPolicy({.level0_trigger = 3, .base_bytes = 500, .multiplier = 3});
}
std::unique_ptr<MergePolicy> LeveledChooseBest() {
  return NewLeveledPolicy(
      {.level0_trigger = 3, .base_bytes = 500, .multiplier = 3, .choose_best = true});
}
std::unique_ptr<MergePolicy> FullLeveling() {
  return NewFullLevelingPolicy({.level0_trigger = 3, .base_bytes = 500, .multiplier = 3});
}
std::unique_ptr<MergePolicy> Tiered() {
  return NewTieredPolicy({.level0_trigger = 3, .runs_max = 3});
}
std::unique_ptr<MergePolicy> SizeTiered() { return NewSizeTieredPolicy(SizeTieredPolicyConfig()); }
std::unique_ptr<MergePolicy> ByGuards() {
  return NewGuardsPolicy({.level0_trigger = 3,
                          .base_bytes = 500,
                          .runs_max = 4,
                          .table_bytes_max = 120,
                          .hash_bits = 2});
}

constexpr StyleOfMerges kStylesOfMerges[] = {
    {"leveled", Guard::Order::kByKey, &Leveled},
    {"leveled_choose_best", Guard::Order::kByKey, &LeveledChooseBest},
    {"full_leveling", Guard::Order::kByKey, &FullLeveling},
    {"tiered", Guard::Order::kNewestFirst, &Tiered},
    {"size_tiered", Guard::Order::kNewestFirst, &SizeTiered},
    {"guards", Guard::Order::kNewestFirst, &ByGuards},
};

// Fails if a merge that goes by steps, or is left half way, makes a key read wrong, or if what
// comes after it leaves tables that overlap and of which none is the newer.
TEST(MergePiecesTest, EveryKeyReadsAsItShouldAfterEveryStep) {
  for (const StyleOfMerges& style : kStylesOfMerges) {
    SCOPED_TRACE(style.name);
    for (uint64_t seed = 1; seed <= Rounds(30); ++seed) {
      PolicySimulation::Config config;
      config.seed = seed;
      config.deeper_order = style.deeper_order;
      config.level_count = style.make == &SizeTiered ? 2 : 4;
      config.sequential = seed % 7 == 0;
      config.key_count = seed % 3 == 0 ? 600 : 120;
      config.records_per_table_max = seed % 2 == 0 ? 12 : 60;
      config.short_of_room = seed % 5 == 0;
      config.steps = true;
      PolicySimulation simulation(config, style.make());
      ASSERT_TRUE(simulation.Run(60)) << "seed " << seed;
      ASSERT_TRUE(simulation.CompactAll()) << "seed " << seed;
    }
  }
}

// A memory node that is full of live data. Fails if some style comes to a point where nothing can
// be deleted, or where a compaction finds no room, though some is kept for merges.
TEST(MergePiecesTest, EveryStyleGetsOutOfAFullMemoryNode) {
  constexpr uint64_t kRecordBytes = 10;
  for (const StyleOfMerges& style : kStylesOfMerges) {
    SCOPED_TRACE(style.name);
    for (uint64_t seed = 1; seed <= Rounds(4); ++seed) {
      PolicySimulation::Config config;
      config.seed = seed;
      config.deeper_order = style.deeper_order;
      config.level_count = style.make == &SizeTiered ? 2 : 4;
      config.keys_per_flush = seed % 2 == 0 ? 12 : 40;
      config.records_per_table_max = seed % 3 == 0 ? 40 : 12;
      config.record_bytes = kRecordBytes;
      config.steps_per_check = 20;
      const uint64_t largest_table =
          std::max(config.records_per_table_max, config.keys_per_flush) * kRecordBytes;
      PolicySimulation simulation(config, style.make());
      ASSERT_TRUE(simulation.FillAndEmpty(/*capacity=*/10000, /*merge_room=*/4 * largest_table,
                                          /*flush_room=*/2 * config.keys_per_flush * kRecordBytes))
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace dlsm
