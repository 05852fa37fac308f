#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "db/merge/merge_policy.h"
#include "db/merge/room_watch.h"
#include "db/test/bytewise_order_testing.h"
#include "db/test/fake_table_testing.h"
#include "db/test/policy_simulation_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

Version MakeVersion(const std::vector<std::vector<FakeTable>>& tables, size_t level_count = 4) {
  std::vector<Level> levels;
  for (size_t i = 0; i < level_count; ++i) {
    Level level(i == 0 ? Guard::Order::kNewestFirst : Guard::Order::kByKey);
    std::vector<TableRef> added;
    for (const FakeTable& table : i < tables.size() ? tables[i] : std::vector<FakeTable>()) {
      added.push_back(MakeFakeTable(table));
    }
    levels.push_back(level.With(Bytewise(), {}, added));
  }
  return Version(Bytewise(), std::move(levels));
}

LeveledPolicyConfig SmallLeveledConfig() {
  LeveledPolicyConfig config;
  config.level0_trigger = 2;
  config.base_bytes = 1000;
  config.multiplier = 10;
  return config;
}

// Fails if a merge starts before level 0 has as many tables as its trigger says.
TEST(LeveledPolicyTest, WaitsForTheTrigger) {
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  EXPECT_FALSE(policy->Pick(MakeVersion({}), {}).has_value());
  EXPECT_FALSE(policy->Pick(MakeVersion({{{1, "a", "z"}}}), {}).has_value());
  EXPECT_TRUE(policy->Pick(MakeVersion({{{2, "a", "z"}, {1, "a", "z"}}}), {}).has_value());
}

// Fails if a manual compaction ends in a level that cannot hold everything: merges would then take
// some of it to the next, and the tree would not be one level.
TEST(LeveledPolicyTest, CompactsIntoALevelThatHasRoom) {
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  FakeTable small{1, "a", "z"};
  small.bytes = 500;
  FakeTable large{1, "a", "z"};
  large.bytes = 5000;
  // It ends in the level before.
  EXPECT_EQ(policy->ManualLevels(MakeVersion({{small}}), nullptr, nullptr), 2u);
  EXPECT_EQ(policy->ManualLevels(MakeVersion({{large}}), nullptr, nullptr), 3u);
  EXPECT_EQ(policy->ManualLevels(MakeVersion({{}, {large}}), nullptr, nullptr), 3u);
  EXPECT_EQ(policy->ManualLevels(MakeVersion({{}, {}, {}, {small}}), nullptr, nullptr), 4u);
}

// Fails if a merge out of level 0 leaves a table behind, or misses one that it overlaps in level 1:
// old versions would then come to lie above newer ones.
TEST(LeveledPolicyTest, TakesAllOfLevel0AndWhatItOverlaps) {
  const Version version =
      MakeVersion({{{9, "c", "e", 9, 9}, {8, "p", "q", 8, 8}},
                   {{1, "a", "b"}, {2, "d", "f"}, {3, "k", "l"}, {4, "q", "z"}}});
  const auto pick = NewLeveledPolicy(SmallLeveledConfig())->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(pick->level, 0u);
  EXPECT_EQ(pick->target_level, 1u);
  EXPECT_EQ(NumbersOf(pick->inputs), (Numbers{9, 8})) << "newest first";
  EXPECT_EQ(NumbersOf(pick->target_inputs), (Numbers{2, 3, 4}));
  EXPECT_FALSE(pick->trivial_move);
}

// Fails if two merges take one table, or one overtakes the other into the same range.
TEST(LeveledPolicyTest, StaysAwayFromTablesInMerges) {
  const Version version =
      MakeVersion({{{9, "c", "e", 9, 9}, {8, "p", "q", 8, 8}}, {{2, "d", "f"}, {4, "q", "z"}}});
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  EXPECT_FALSE(policy->Pick(version, {8}).has_value());
  EXPECT_FALSE(policy->Pick(version, {4}).has_value());
  EXPECT_TRUE(policy->Pick(version, {77}).has_value());
}

// Fails if tables change their level untouched though they overlap each other or what is below, or
// are rewritten though they do not.
TEST(LeveledPolicyTest, MovesOnlyWhatOverlapsNothing) {
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  EXPECT_TRUE(policy->Pick(MakeVersion({{{2, "d", "f"}, {1, "a", "b"}}}), {})->trivial_move);
  EXPECT_FALSE(policy->Pick(MakeVersion({{{2, "b", "f"}, {1, "a", "b"}}}), {})->trivial_move);
  EXPECT_FALSE(policy->Pick(MakeVersion({{{2, "d", "f"}, {1, "a", "b"}}, {{5, "b", "c"}}}), {})
                   ->trivial_move);
}

// Fails if a deletion could be dropped, or kept for ever, because the ranges of what is older are
// not exactly those of the levels below the target, joined.
TEST(LeveledPolicyTest, TellsWhatIsOlder) {
  const Version version = MakeVersion({{{9, "a", "z", 9, 9}, {8, "a", "z", 8, 8}},
                                       {{7, "a", "z"}},
                                       {{6, "c", "e"}, {5, "m", "n"}},
                                       {{4, "d", "g"}, {3, "x", "y"}}});
  const auto pick = NewLeveledPolicy(SmallLeveledConfig())->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  ASSERT_EQ(pick->older.size(), 3u);
  EXPECT_EQ(pick->older[0].smallest, "c");
  EXPECT_EQ(pick->older[0].largest, "g");
  EXPECT_EQ(pick->older[1].smallest, "m");
  EXPECT_EQ(pick->older[1].largest, "n");
  EXPECT_EQ(pick->older[2].smallest, "x");
  EXPECT_EQ(pick->older[2].largest, "y");
}

// Fails if a level within its size is merged, if one beyond it is not, or if the last level is.
TEST(LeveledPolicyTest, GoesByTheSizesOfLevels) {
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  EXPECT_FALSE(policy->Pick(MakeVersion({{}, {{1, "a", "b", 1, 1, 999}}}), {}).has_value());
  EXPECT_TRUE(policy->Pick(MakeVersion({{}, {{1, "a", "b", 1, 1, 1000}}}), {}).has_value());
  EXPECT_FALSE(policy->Pick(MakeVersion({{}, {}, {{1, "a", "b", 1, 1, 9999}}}), {}).has_value());
  EXPECT_TRUE(policy->Pick(MakeVersion({{}, {}, {{1, "a", "b", 1, 1, 10000}}}), {}).has_value());
  EXPECT_FALSE(
      policy->Pick(MakeVersion({{}, {}, {}, {{1, "a", "b", 1, 1, 1 << 30}}}), {}).has_value());
}

// Fails if the level that exceeds its size the most is not first.
TEST(LeveledPolicyTest, ServesTheFullestLevelFirst) {
  const Version version =
      MakeVersion({{}, {{1, "a", "b", 1, 1, 2000}}, {{2, "c", "d", 1, 1, 50000}}});
  EXPECT_EQ(NewLeveledPolicy(SmallLeveledConfig())->Pick(version, {})->level, 2u);
}

// Fails if merges out of a level do not go round through all its tables.
TEST(LeveledPolicyTest, GoesRound) {
  const Version version = MakeVersion(
      {{}, {{1, "a", "b", 1, 1, 900}, {2, "c", "d", 1, 1, 900}, {3, "e", "f", 1, 1, 900}}});
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  Numbers order;
  for (int i = 0; i < 6; ++i) order.push_back(policy->Pick(version, {})->inputs.front()->number());
  EXPECT_EQ(order, (Numbers{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(policy->Pick(version, {1})->inputs.front()->number(), 2u);
}

// Fails if one of two neighbours that hold versions of one user key sinks without the other: the
// newer versions would then lie below the older ones.
TEST(LeveledPolicyTest, KeepsVersionsOfAKeyTogether) {
  const Version version = MakeVersion({{},
                                       {{1, "a", "k", 9, 9, 900},
                                        {2, "k", "k", 8, 5, 900},
                                        {3, "k", "p", 4, 1, 900},
                                        {4, "q", "z", 1, 1, 900}}});
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  const auto pick = policy->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->inputs), (Numbers{1, 2, 3}));
  EXPECT_FALSE(pick->trivial_move && pick->inputs.size() > 1);
  EXPECT_EQ(NumbersOf(policy->Pick(version, {})->inputs), Numbers{4});
}

// The same in the target level: fails if a table there that shares the outermost user key stays
// out.
TEST(LeveledPolicyTest, TakesTargetNeighboursThatShareAKey) {
  const Version version =
      MakeVersion({{},
                   {{1, "c", "d", 20, 20, 2000}},
                   {{5, "a", "b", 1, 9}, {6, "b", "d", 8, 9}, {7, "d", "f", 8, 8}, {8, "g", "h"}}});
  const auto pick = NewLeveledPolicy(SmallLeveledConfig())->Pick(version, {});
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->target_inputs), (Numbers{5, 6, 7}));
  EXPECT_FALSE(NewLeveledPolicy(SmallLeveledConfig())->Pick(version, {5}).has_value())
      << "a neighbour that must take part is busy";
}

// Fails if merges out of level 1 keep starting while level 0 waits for one of them to end.
TEST(LeveledPolicyTest, DoesNotStarveLevel0) {
  const Version version = MakeVersion({{{9, "a", "z", 9, 9}, {8, "a", "z", 8, 8}},
                                       {{1, "a", "b", 1, 1, 9000}, {2, "p", "q", 1, 1, 9000}}});
  EXPECT_FALSE(NewLeveledPolicy(SmallLeveledConfig())->Pick(version, {1}).has_value());
}

// Fails if a manual compaction does not say that it is done, or takes what it need not.
TEST(LeveledPolicyTest, ManualMergesEndWhenNothingOverlaps) {
  const Version version =
      MakeVersion({{}, {{1, "a", "b"}, {2, "c", "d"}, {3, "x", "z"}}, {{4, "d", "d"}}});
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  const Slice begin = "c";
  const Slice end = "m";
  bool done = false;
  auto pick = policy->PickManual(version, {}, 1, ManualScope{&begin, &end}, &done);
  EXPECT_FALSE(done);
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->inputs), Numbers{2});
  EXPECT_FALSE(policy->PickManual(version, {2}, 1, ManualScope{&begin, &end}, &done).has_value());
  EXPECT_FALSE(done) << "the table is in another merge: wait for it";
  const Slice gap = "e";
  EXPECT_FALSE(policy->PickManual(version, {}, 1, ManualScope{&gap, &end}, &done).has_value());
  EXPECT_TRUE(done);
}

// Fails if a compaction that was asked for moves deletions down instead of dropping them.
TEST(LeveledPolicyTest, ManualMergesDoNotMoveDeletions) {
  const Version version = MakeVersion({{{2, "x", "z", 1, 1, 64, 1}}, {{1, "a", "b", 1, 1, 64, 1}}});
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  bool done;
  EXPECT_FALSE(
      policy->PickManual(version, {}, 0, ManualScope{nullptr, nullptr}, &done)->trivial_move);
  EXPECT_FALSE(
      policy->PickManual(version, {}, 1, ManualScope{nullptr, nullptr}, &done)->trivial_move);
}

// Fails if a manual compaction leaves behind what it has merged in a level that was to be its last
// one, when that turns out to be the next: some would come to lie there, and some deeper.
TEST(LeveledPolicyTest, WhatWasMergedInPlaceGoesFurtherDownOnceItMust) {
  ManualScope scope;
  scope.made_before = 5;
  scope.merged = {7};
  const FakeTable merged{7, "a", "c"};
  const FakeTable written_meanwhile{8, "x", "z", 1, 1, 2000};
  for (const auto& policy :
       {NewLeveledPolicy(SmallLeveledConfig()), NewFullLevelingPolicy(SmallLeveledConfig())}) {
    bool done = false;
    EXPECT_FALSE(policy->PickManual(MakeVersion({{}, {merged}}), {}, 1, scope, &done).has_value());
    EXPECT_TRUE(done);
    const auto pick =
        policy->PickManual(MakeVersion({{}, {merged, written_meanwhile}}), {}, 1, scope, &done);
    EXPECT_FALSE(done);
    ASSERT_TRUE(pick.has_value());
    EXPECT_EQ(pick->inputs.front()->number(), 7u);
    EXPECT_EQ(pick->target_level, 2u);
  }
}

// Fails if a full memory node stays full because the first table of a level has nothing older
// below it.
TEST(LeveledPolicyTest, ATableThatHidesNothingKeepsNoneFromMakingRoom) {
  const auto policy = NewLeveledPolicy(SmallLeveledConfig());
  const RoomLeft full{.full = true};
  const std::vector<FakeTable> newer = {{2, "a", "b", 20, 20}, {3, "m", "n", 20, 20}};
  const std::vector<FakeTable> older = {{1, "m", "p"}};
  auto pick = policy->PickForRoom(MakeVersion({{}, newer, older}), {}, full);
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->inputs), Numbers{3});
  EXPECT_EQ(NumbersOf(pick->target_inputs), Numbers{1});
  pick = policy->PickForRoom(MakeVersion({{}, newer, {}, older}), {}, full);
  ASSERT_TRUE(pick.has_value());
  EXPECT_EQ(NumbersOf(pick->inputs), Numbers{3});
  EXPECT_FALSE(policy->PickForRoom(MakeVersion({{}, newer}), {}, full).has_value());
}

// Random trees and random merges under way: every pick can be carried out beside them, and what it
// would make keeps the levels' invariants.
TEST(LeveledPolicyTest, EveryPickKeepsTheInvariants) {
  for (uint64_t seed = 1; seed <= Rounds(300); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    uint64_t number = 1;
    std::vector<std::vector<FakeTable>> tables(4);
    for (size_t level = 1; level < 4; ++level) {
      for (char c = 'a'; c < 'z';
           c = static_cast<char>(c + 1 + static_cast<char>(random.Uniform(3)))) {
        if (random.OneIn(3)) continue;
        const auto sequence = static_cast<SequenceNumber>(100 - 20 * level);
        const bool shares = !tables[level].empty() && tables[level].back().largest[0] == c;
        tables[level].push_back(
            {number++, std::string(1, c),
             std::string(1, static_cast<char>(c + static_cast<char>(random.Uniform(2)))),
             shares ? sequence - 10 : sequence, shares ? sequence - 15 : sequence - 5,
             random.Uniform(3000)});
        const bool one_key = tables[level].back().smallest == tables[level].back().largest;
        if (!one_key && !shares) tables[level].back().largest_sequence = sequence;
      }
    }
    for (uint64_t i = random.Uniform(4); i > 0; --i) {
      const auto first = static_cast<char>('a' + static_cast<char>(random.Uniform(20)));
      tables[0].push_back({number++, std::string(1, first),
                           std::string(1, static_cast<char>(first + 3)), 1000 + 10 * i,
                           1000 + 10 * i});
    }
    const Version version = MakeVersion(tables);
    if (!version.CheckInvariants().ok()) continue;  // Not every sketch is a tree.
    const auto policy = NewLeveledPolicy(SmallLeveledConfig());
    TablesInMerge busy;
    std::shared_ptr<const Version> head = version.With(VersionEdit(4));
    std::vector<MergePick> picks;
    while (auto pick = policy->Pick(*head, busy)) {
      for (const auto* side : {&pick->inputs, &pick->target_inputs}) {
        for (const TableRef& table : *side) ASSERT_TRUE(busy.insert(table->number()).second);
      }
      picks.push_back(*pick);
      ASSERT_LT(picks.size(), 100u);
    }
    for (const MergePick& pick : picks) {
      VersionEdit edit(pick.target_level + 1);
      for (const TableRef& table : pick.inputs)
        edit.levels[pick.level].removed.push_back(table->number());
      for (const TableRef& table : pick.target_inputs) {
        edit.levels[pick.target_level].removed.push_back(table->number());
      }
      // The widest single table that the merge could make.
      FakeTable output{number++, "", "", 1, 1};
      for (const auto* side : {&pick.inputs, &pick.target_inputs}) {
        for (const TableRef& table : *side) {
          const std::string smallest = ExtractUserKey(table->smallest()).ToString();
          const std::string largest = ExtractUserKey(table->largest()).ToString();
          if (output.smallest.empty() || smallest < output.smallest) output.smallest = smallest;
          if (largest > output.largest) output.largest = largest;
        }
      }
      output.smallest_sequence = 2;
      edit.levels[pick.target_level].added =
          pick.trivial_move ? pick.inputs : std::vector<TableRef>{MakeFakeTable(output)};
      head = head->With(edit);
      ASSERT_OK(head->CheckInvariants());
    }
  }
}

// Fails if a lookup finds an old version, a deleted key, or none; with either way to choose a
// table.
TEST(LeveledPolicyTest, EveryKeyReadsAsItShouldAfterEveryStep) {
  for (uint64_t seed = 1; seed <= Rounds(60); ++seed) {
    LeveledPolicyConfig policy = SmallLeveledConfig();
    policy.base_bytes = 300;
    policy.multiplier = 3;
    policy.choose_best = seed % 2 == 0;
    PolicySimulation::Config config;
    config.seed = seed;
    config.deeper_order = Guard::Order::kByKey;
    config.key_count = seed % 3 == 0 ? 1000 : 300;
    config.sequential = seed % 7 == 0;
    config.short_of_room = seed % 5 == 0;
    auto limited = NewLeveledPolicy(policy);
    if (seed % 3 == 0) limited->LimitLevel0Merges(2);
    PolicySimulation simulation(config, std::move(limited));
    ASSERT_TRUE(simulation.Run(80)) << "seed " << seed;
    ASSERT_TRUE(simulation.CompactAll()) << "seed " << seed;
  }
}

// Fails if a limited merge out of level 0 takes another number of tables, or not the oldest; or if
// one is limited that somebody asks for.
TEST(LeveledPolicyTest, LimitsMergesOutOfLevel0) {
  const Version version = MakeVersion({{{5, "a", "z", 9, 9, 10},
                                        {4, "a", "z", 8, 8, 10},
                                        {3, "a", "z", 7, 7, 10},
                                        {2, "a", "z", 6, 6, 10},
                                        {1, "a", "z", 5, 5, 10}},
                                       {}});
  LeveledPolicyConfig config = SmallLeveledConfig();
  config.level0_trigger = 3;
  GuardsPolicyConfig guards;
  guards.level0_trigger = 3;
  for (const auto& policy :
       {NewLeveledPolicy(config), NewFullLevelingPolicy(config), NewGuardsPolicy(guards)}) {
    EXPECT_EQ(policy->Pick(version, {})->inputs.size(), 5u);
    policy->LimitLevel0Merges(3);
    EXPECT_EQ(NumbersOf(policy->Pick(version, {})->inputs), (std::vector<uint64_t>{3, 2, 1}));
    bool done = true;
    EXPECT_EQ(policy->PickManual(version, {}, 0, ManualScope{}, &done)->inputs.size(), 5u);
    EXPECT_FALSE(done);
    policy->LimitLevel0Merges(0);
    EXPECT_EQ(policy->Pick(version, {})->inputs.size(), 5u);
  }
}

// Fails if the table that moves the most for what it rewrites is not the first to go.
TEST(LeveledPolicyTest, ChoosesTheBest) {
  LeveledPolicyConfig config = SmallLeveledConfig();
  config.choose_best = true;
  const Version version =
      MakeVersion({{},
                   {{1, "a", "c", 1, 1, 900}, {2, "d", "f", 1, 1, 300}, {3, "g", "i", 1, 1, 900}},
                   {{4, "a", "b", 1, 1, 900}, {5, "e", "e", 1, 1, 100}, {6, "g", "h", 1, 1, 800}}});
  const auto policy = NewLeveledPolicy(config);
  EXPECT_EQ(policy->Pick(version, {})->inputs.front()->number(), 2u);
  EXPECT_EQ(policy->Pick(version, {5})->inputs.front()->number(), 3u) << "that one must wait";
}

}  // namespace
}  // namespace dlsm
