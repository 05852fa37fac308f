#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/merge/merge_policies.h"
#include "db/merge/merge_policy.h"
#include "db/test/policy_simulation_testing.h"
#include "db/tree/level_testing.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

GuardsPolicyConfig SmallGuardsConfig() {
  GuardsPolicyConfig config;
  config.level0_trigger = 2;
  config.base_bytes = 240;
  config.runs_max = 3;
  config.table_bytes_max = 120;
  config.hash_bits = 1;
  return config;
}

// Fails if a lookup finds an old version, a deleted key, or none: a merge that overtakes another,
// puts its output into the wrong place, drops a deletion that still hides something, or makes a
// guard that divides a table.
TEST(GuardsPolicyTest, EveryKeyReadsAsItShouldAfterEveryStep) {
  for (uint64_t seed = 1; seed <= Rounds(150); ++seed) {
    PolicySimulation::Config config;
    config.seed = seed;
    config.level_count = 2 + seed % 4;
    config.sequential = seed % 7 == 0;
    config.key_count = seed % 3 == 0 ? 1000 : 120;
    config.seeks = seed % 2 == 0;
    config.pauses = seed % 5 < 2;
    config.short_of_room = seed % 11 < 5;
    GuardsPolicyConfig policy_config = SmallGuardsConfig();
    policy_config.idle_newer_percent_max = 10 * (seed % 4);
    std::unique_ptr<MergePolicy> policy = NewGuardsPolicy(policy_config);
    if (seed % 5 == 0) policy->LimitLevel0Merges(2);
    PolicySimulation simulation(config, std::move(policy));
    ASSERT_TRUE(simulation.Run(80)) << "seed " << seed;
    EXPECT_LT(simulation.version().levels()[0].table_count(), 2u);
    ASSERT_TRUE(simulation.CompactAll()) << "seed " << seed;
  }
}

// Fails if a full memory node is not rid of all that is obsolete, or merges for that go on for
// ever.
TEST(GuardsPolicyTest, NothingObsoleteStaysInAFullMemoryNode) {
  for (uint64_t seed = 1; seed <= Rounds(30); ++seed) {
    PolicySimulation::Config config;
    config.seed = seed;
    config.level_count = 2 + seed % 4;
    config.key_count = seed % 3 == 0 ? 1000 : 120;
    PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
    ASSERT_TRUE(simulation.Run(1 + 11 * (seed % 8))) << "seed " << seed;
    ASSERT_TRUE(simulation.MakeAllRoom()) << "seed " << seed;
    const Version& version = simulation.version();
    std::vector<TableRef> tables = TablesFrom(version, 0);
    EXPECT_TRUE(AreDisjoint(version.comparator(), tables)) << "seed " << seed;
  }
}

// Fails if the test above could not notice a resurrected key.
TEST(GuardsPolicyTest, DroppedDeletionsAreNoticed) {
  int noticed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    PolicySimulation::Config config;
    config.seed = seed;
    config.drop_all_deletions = true;
    PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
    noticed += simulation.Run(80, /*quiet=*/true) ? 0 : 1;
  }
  EXPECT_EQ(noticed, 10);
}

// Fails if data that only grows makes no guards, or all in one level: lower levels have more.
TEST(GuardsPolicyTest, DeeperLevelsHaveMoreGuards) {
  PolicySimulation::Config config;
  config.key_count = 20000;
  config.level_count = 5;
  config.steps_per_check = 20;
  PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
  ASSERT_TRUE(simulation.Run(600));
  const std::vector<Level>& levels = simulation.version().levels();
  EXPECT_GE(levels[1].guards().size(), 1u);
  EXPECT_GT(levels[2].guards().size(), levels[1].guards().size());
  EXPECT_GT(levels[3].guards().size(), levels[2].guards().size());
}

// Fails if a guard keeps more runs than it may.
TEST(GuardsPolicyTest, NoGuardStaysFull) {
  PolicySimulation::Config config;
  config.key_count = 3000;
  config.steps_per_check = 20;
  PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
  ASSERT_TRUE(simulation.Run(300));
  for (const Level& level : simulation.version().levels()) {
    for (const Guard* guard : level.AllGuards()) {
      const InternalKeyComparator& comparator = simulation.version().comparator();
      EXPECT_LT(CountRuns(comparator, guard->tables), SmallGuardsConfig().runs_max);
    }
  }
}

// Fails if keys that are written in order are rewritten though no table overlaps another.
TEST(GuardsPolicyTest, WhatComesInOrderOnlyMoves) {
  PolicySimulation::Config config;
  config.sequential = true;
  config.key_count = 99999;
  config.deletions = false;
  config.steps_per_check = 20;
  PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
  ASSERT_TRUE(simulation.Run(300));
  EXPECT_EQ(simulation.records_merged(), 0u);
}

// Fails if a compaction that somebody asks for takes what others have made since: where somebody
// writes, it would not end.
TEST(GuardsPolicyTest, AManualMergeLeavesWhatCameLater) {
  PolicySimulation::Config config;
  config.key_count = 3000;
  config.steps_per_check = 20;
  PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
  ASSERT_TRUE(simulation.Run(300));
  const Version& version = simulation.version();
  for (const auto& policy :
       {NewGuardsPolicy(SmallGuardsConfig()), NewLeveledPolicy(LeveledPolicyConfig()),
        NewFullLevelingPolicy(LeveledPolicyConfig())}) {
    for (size_t level = 0; level < version.levels().size(); ++level) {
      uint64_t oldest = UINT64_MAX;
      for (const TableRef& table : version.levels()[level].AllTables()) {
        oldest = std::min(oldest, table->number());
      }
      bool done = false;
      EXPECT_FALSE(
          policy->PickManual(version, {}, level, ManualScope{nullptr, nullptr, oldest}, &done));
      EXPECT_TRUE(done);
    }
  }
  // But what others have merged in place is what it was.
  ManualScope renamed{nullptr, nullptr, /*made_before=*/0};
  for (const TableRef& table : version.levels()[2].AllTables())
    renamed.also.insert(table->number());
  for (const ManualScope& scope : {ManualScope{}, renamed}) {
    bool done = true;
    EXPECT_TRUE(NewGuardsPolicy(SmallGuardsConfig())->PickManual(version, {}, 2, scope, &done));
    EXPECT_FALSE(done);
  }
}

// Fails if guards whose keys have all been deleted stay for ever.
TEST(GuardsPolicyTest, EmptyGuardsGo) {
  PolicySimulation::Config config;
  config.key_count = 2000;
  config.steps_per_check = 20;
  PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
  ASSERT_TRUE(simulation.Run(300));
  const auto count = [&] {
    size_t guards = 0;
    for (const Level& level : simulation.version().levels()) guards += level.guards().size();
    return guards;
  };
  const size_t before = count();
  ASSERT_GT(before, 10u);
  simulation.DeleteEverything();
  ASSERT_TRUE(simulation.CompactAll());
  ASSERT_TRUE(simulation.Run(4));
  EXPECT_LT(count(), before / 2);
}

// Fails if what is only sought in does not become one run in one level, or what nobody seeks in is
// merged.
TEST(GuardsPolicyTest, SeeksMakeOneRunOfAllLevels) {
  PolicySimulation::Config config;
  config.key_count = 3000;
  PolicySimulation simulation(config, NewGuardsPolicy(SmallGuardsConfig()));
  ASSERT_TRUE(simulation.Run(301));
  const auto runs = [&] {
    size_t most = 0;
    for (const Level& level : simulation.version().levels()) {
      size_t of_level = 0;
      for (const Guard* guard : level.AllGuards()) {
        of_level = std::max(of_level, CountRuns(simulation.version().comparator(), guard->tables));
      }
      most += of_level;
    }
    return most;
  };
  // The simulation looks up every key after every step, so there are fewer than there could be.
  ASSERT_GT(runs(), 2u);
  const size_t merges = simulation.merges_done();
  ASSERT_TRUE(simulation.Run(0));
  EXPECT_EQ(simulation.merges_done(), merges);
  for (int round = 0; round < 10; ++round) {
    for (const Level& level : simulation.version().levels()) {
      for (const Guard* guard : level.AllGuards()) {
        if (!guard->tables.empty()) guard->tables.back()->CountLooks(100000 * kLooksPerSeek);
      }
    }
    ASSERT_TRUE(simulation.Run(0));
  }
  EXPECT_EQ(runs(), 1u);
}

// Fails if a few reads have a guard merged while somebody writes, or do not while nobody does.
TEST(GuardsPolicyTest, ReadsCountForMoreWhileNobodyWrites) {
  const InternalKeyComparator comparator(BytewiseComparator());
  FakeTable newer{2, "b", "y", 9, 9};
  FakeTable older{1, "a", "z"};
  newer.deletions = older.deletions = 1998;
  const std::vector<TableRef> tables = MakeFakeTables({newer, older});
  std::vector<Level> levels(3);
  levels[1] = levels[1].With(comparator, {}, tables);
  const Version version(comparator, std::move(levels));
  const auto policy = NewGuardsPolicy(SmallGuardsConfig());
  policy->SetQuiet(true);
  EXPECT_FALSE(policy->Pick(version, {}).has_value()) << "nobody has read";
  // A sixth of what the merge of 4000 entries costs.
  tables.back()->CountLooks(4000 * 4 / 6);
  policy->SetQuiet(false);
  EXPECT_FALSE(policy->Pick(version, {}).has_value());
  policy->SetQuiet(true);
  const auto pick = policy->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(pick->cause, MergeCause::kReads);
}

// Fails if the little that lies in level 0 has all that is below merged, though few reads have met
// it.
TEST(GuardsPolicyTest, ReadsOfLevelZeroDoNotPayForAllBelow) {
  const InternalKeyComparator comparator(BytewiseComparator());
  FakeTable newer{3, "b", "y", 19, 19};
  FakeTable new_too{2, "b", "y", 9, 9};
  FakeTable older{1, "a", "z"};
  newer.deletions = new_too.deletions = 8;
  older.deletions = 3998;
  older.bytes = 6400;
  std::vector<Level> levels(3);
  const std::vector<TableRef> tables = MakeFakeTables({newer, new_too});
  levels[0] = levels[0].With(comparator, {}, tables);
  levels[1] = levels[1].With(comparator, {}, MakeFakeTables({older}));
  const Version version(comparator, std::move(levels));
  GuardsPolicyConfig config = SmallGuardsConfig();
  config.level0_trigger = 4;
  config.base_bytes = 10'000;
  const auto policy = NewGuardsPolicy(config);
  EXPECT_FALSE(policy->Pick(version, {}).has_value());
  tables.back()->CountLooks(1000);
  auto pick = policy->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(pick->cause, MergeCause::kReads);
  EXPECT_EQ(NumbersOf(pick->inputs), (std::vector<uint64_t>{3, 2}));
  EXPECT_TRUE(pick->target_inputs.empty());
  // Both runs less, for each look, are worth all of it in the end.
  tables.back()->CountLooks(4020 * 4 / 2);
  pick = policy->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->target_inputs), std::vector<uint64_t>{1});
}

// Fails if what is little, and lies across many guards, has all of them merged at once, which would
// keep level 0 from writers that return.
TEST(GuardsPolicyTest, ReadsHaveLevelZeroMergedGuardByGuard) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const Guard::Order order = Guard::Order::kNewestFirst;
  const std::vector<TableRef> tables = MakeFakeTables({{9, "b", "y", 9, 9}});
  std::vector<Level> levels(3);
  levels[0] = levels[0].With(comparator, {}, tables);
  levels[1] = MakeLevel({{"", order, {{1, "a", "c"}}}, {"h", order, {{2, "h", "z"}}}});
  const Version version(comparator, std::move(levels));
  GuardsPolicyConfig config = SmallGuardsConfig();
  config.level0_trigger = 4;
  const auto policy = NewGuardsPolicy(config);
  tables.back()->CountLooks(100000);
  const auto pick = policy->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(pick->cause, MergeCause::kReads);
  EXPECT_EQ(NumbersOf(pick->inputs), std::vector<uint64_t>{9});
  EXPECT_TRUE(pick->target_inputs.empty());
}

// Fails if what is due by itself comes after what only reads have asked for, which may have to
// rest; or is taken for that because it is read as well.
TEST(GuardsPolicyTest, WhatIsDueByItselfComesBeforeWhatReadsHaveAskedFor) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const Guard::Order order = Guard::Order::kNewestFirst;
  std::vector<Level> levels(3);
  // The one guard has more runs; in the other the newer one outweighs the oldest.
  levels[1] = MakeLevel({{"", order, {{3, "a", "c", 9, 9}, {2, "a", "c", 5, 5}, {1, "a", "c"}}},
                         {"h", order, {{5, "h", "n", 9, 9, 300}, {4, "h", "n"}}}});
  const Version version(comparator, std::move(levels));
  GuardsPolicyConfig config = SmallGuardsConfig();
  config.runs_max = 4;
  config.table_bytes_max = 200;
  const auto policy = NewGuardsPolicy(config);
  const std::vector<const Guard*> guards = version.levels()[1].AllGuards();
  ASSERT_EQ(guards.size(), 2u);
  const auto expect = [&](const TablesInMerge& busy, const Numbers& numbers, MergeCause cause) {
    const auto pick = policy->Pick(version, busy);
    ASSERT_TRUE(pick.has_value());
    EXPECT_EQ(NumbersOf(pick->inputs), numbers);
    EXPECT_EQ(pick->cause, cause);
  };
  guards[0]->tables.back()->CountLooks(100000);
  expect({}, {5, 4}, MergeCause::kShape);
  expect({5, 4}, {3, 2, 1}, MergeCause::kReads);
  guards[1]->tables.back()->CountLooks(100000);
  expect({}, {5, 4}, MergeCause::kShape);
}

// Fails if nothing is merged while nobody writes, more than is worth it, or in the wrong order.
TEST(GuardsPolicyTest, WhileNobodyWritesRunsAreMergedForReadsToCome) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const Guard::Order order = Guard::Order::kNewestFirst;
  const auto level1 = [&] {
    return MakeLevel(
        {{"", order, {{1, "a", "c"}}},
         {"h", order, {{4, "h", "n", 4, 4}, {3, "h", "n"}}},
         // Three tables of the oldest run to one of the newer.
         {"p", order, {{8, "p", "t", 8, 8}, {5, "p", "q"}, {6, "r", "s"}, {7, "t", "z"}}}});
  };
  GuardsPolicyConfig config = SmallGuardsConfig();
  config.level0_trigger = 16;
  config.runs_max = 8;
  config.idle_newer_percent_max = 50;
  const auto policy = NewGuardsPolicy(config);
  const auto pick = [&](std::initializer_list<FakeTable> level0, const TablesInMerge& busy) {
    std::vector<Level> levels(3);
    levels[0] = levels[0].With(comparator, {}, MakeFakeTables(level0));
    levels[1] = level1();
    const Version version(comparator, std::move(levels));
    EXPECT_FALSE(policy->Pick(version, busy).has_value()) << "nobody has asked for any";
    const auto picked = policy->PickWhileIdle(version, busy);
    EXPECT_TRUE(!picked.has_value() || picked->cause == MergeCause::kIdle);
    return picked.has_value() ? NumbersOf(picked->inputs) : Numbers();
  };
  EXPECT_EQ(pick({}, {}), (Numbers{4, 3}));
  EXPECT_EQ(pick({}, {4, 3}), Numbers()) << "a third of the oldest run is not worth it";
  const FakeTable one{20, "a", "z", 20, 20};
  const FakeTable two{21, "a", "z", 21, 21};
  const FakeTable three{22, "a", "z", 22, 22};
  const FakeTable four{23, "a", "z", 23, 23};
  EXPECT_EQ(pick({one}, {}), (Numbers{4, 3}));
  EXPECT_EQ(pick({four, three, two, one}, {}), (Numbers{23, 22, 21, 20}));
  EXPECT_EQ(pick({four, three, two, one}, {20}), Numbers()) << "guards wait for what comes to them";
}

// Fails if level 0 is merged long before it is as full as other guards, or stops writers before
// that; or if other styles are concerned.
TEST(GuardsPolicyTest, LevelZeroIsAGuardLikeOthers) {
  Options options;
  options.compaction_style = CompactionStyle::kGuards;
  options.max_tables_per_guard = 20;
  EXPECT_EQ(Level0TriggersOf(options).merge, 20u);
  EXPECT_EQ(Level0TriggersOf(options).stop, 40u);
  options.level0_file_num_compaction_trigger = 30;
  options.level0_stop_writes_trigger = 90;
  EXPECT_EQ(Level0TriggersOf(options).merge, 30u);
  EXPECT_EQ(Level0TriggersOf(options).stop, 90u);
  options.compaction_style = CompactionStyle::kLeveled;
  options.level0_file_num_compaction_trigger = 4;
  EXPECT_EQ(Level0TriggersOf(options).merge, 4u);
}

// Fails if merges that make room take more than a guard at a time where they need not, begin with
// what makes little, take more of level 0 than fits, or start where there is plenty.
TEST(GuardsPolicyTest, RoomIsMadeGuardByGuard) {
  const InternalKeyComparator comparator(BytewiseComparator());
  std::vector<Level> levels(3);
  levels[0] = levels[0].With(comparator, {},
                             MakeFakeTables({{9, "a", "z", 90, 99}, {8, "a", "z", 80, 89}}));
  const Guard::Order order = Guard::Order::kNewestFirst;
  levels[1] = MakeLevel({{"", order, {{1, "a", "c"}, {2, "d", "f"}}},  // Disjoint.
                         {"h", order, {{4, "h", "n", 4, 4}, {3, "h", "n"}}},
                         {"p", order, {{7, "p", "t", 7, 7}, {6, "p", "z", 6, 6}, {5, "p", "z"}}}});
  const Version version(comparator, std::move(levels));
  const auto policy = NewGuardsPolicy(SmallGuardsConfig());
  const auto pick = [&](uint64_t free_bytes, const TablesInMerge& busy) {
    const auto picked = policy->PickForRoom(version, busy, RoomLeft{free_bytes});
    EXPECT_TRUE(!picked.has_value() || picked->target_inputs.empty());
    return picked.has_value() ? NumbersOf(picked->inputs) : std::vector<uint64_t>();
  };
  EXPECT_EQ(pick(10'000, {}), Numbers());
  EXPECT_EQ(pick(300, {}), (Numbers{7, 6, 5}));  // A table has 64 bytes.
  EXPECT_EQ(pick(130, {}), (Numbers{4, 3})) << "the other one does not fit";
  EXPECT_EQ(pick(300, {7, 6, 5}), (Numbers{4, 3}));
  EXPECT_EQ(pick(250, {4, 6}), (Numbers{8})) << "both tables do not fit twice";
  EXPECT_EQ(pick(256, {4, 6}), (Numbers{9, 8}));
  EXPECT_EQ(pick(100, {}), (Numbers{8})) << "no guard fits";
  EXPECT_EQ(pick(30, {}), (Numbers{8})) << "nothing fits, and this is the smallest";
  EXPECT_EQ(pick(300, {4, 6}), Numbers()) << "level 0 is less than half of what is left";
}

// Fails if level 0 waits for its trigger in vain, or a merge starts before.
TEST(GuardsPolicyTest, WaitsForTheTrigger) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const auto version = [&](const std::vector<TableRef>& tables) {
    std::vector<Level> levels(3);
    levels[0] = levels[0].With(comparator, {}, tables);
    return Version(comparator, std::move(levels));
  };
  const auto policy = NewGuardsPolicy(SmallGuardsConfig());
  EXPECT_FALSE(policy->Pick(version({}), {}).has_value());
  EXPECT_FALSE(policy->Pick(version(MakeFakeTables({{1, "a", "z"}})), {}).has_value());
  const std::vector<TableRef> two = MakeFakeTables({{2, "b", "y", 9, 9}, {1, "a", "z"}});
  const auto pick = policy->Pick(version(two), {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->inputs), (std::vector<uint64_t>{2, 1}));
  EXPECT_FALSE(policy->Pick(version(two), {1}).has_value()) << "one is in a merge";
}

}  // namespace
}  // namespace dlsm
