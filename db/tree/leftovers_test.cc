#include "db/tree/leftovers.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/merge/merge_policy.h"
#include "db/merge/room_watch.h"
#include "db/test/fake_table_testing.h"

namespace dlsm {
namespace {

using Snapshots = std::vector<SequenceNumber>;

// Fails if a snapshot counts that sees all of a table, or none of what was kept in it; or if one
// that may have had something kept does not.
TEST(LeftoversTest, KeepersSeeAPart) {
  const auto count = [](uint64_t deletions, const Snapshots& snapshots) {
    return CountKeepers(FakeMeta({1, "a", "z", 20, 10, 64, deletions}), snapshots);
  };
  EXPECT_EQ(count(0, {}), 0u);
  EXPECT_EQ(count(0, {9}), 0u);
  EXPECT_EQ(count(0, {10}), 1u);
  EXPECT_EQ(count(0, {19}), 1u);
  EXPECT_EQ(count(0, {20}), 0u);
  EXPECT_EQ(count(0, {5, 9, 10, 15, 19, 20, 25}), 3u);
  EXPECT_EQ(count(1, {5, 9, 10, 15, 19, 20, 25}), 5u) << "who does not see a deletion keeps it";
  EXPECT_EQ(count(1, {9}), 1u);
}

// Fails if a release goes unnoticed, if there is nothing left to keep a table as it is, or if a
// table looks as if it had leftovers when nothing has changed.
TEST(LeftoversTest, AReleaseLeavesSomething) {
  const auto holds = [](uint64_t deletions, uint64_t keepers, const Snapshots& live) {
    return HoldsLeftovers(*MakeFakeTable({1, "a", "z", 20, 10, 64, deletions, keepers}), live);
  };
  EXPECT_FALSE(holds(0, 0, {}));
  EXPECT_FALSE(holds(0, 2, {12, 15}));
  EXPECT_FALSE(holds(0, 2, {12, 15, 20, 30})) << "these came later";
  EXPECT_TRUE(holds(0, 2, {12, 20, 30}));
  EXPECT_TRUE(holds(0, 2, {}));
  EXPECT_FALSE(holds(1, 1, {9}));
  EXPECT_TRUE(holds(1, 1, {20}));
  EXPECT_TRUE(holds(1, 0, {})) << "it may have come here before there was nothing older";
  EXPECT_TRUE(holds(0, Table::kKeepersUnknown, {}));
}

// A policy, and the deepest level that its tree has tables in.
struct StyleOfTree {
  std::string name;
  std::unique_ptr<MergePolicy> policy;
  size_t level = 1;
  Guard::Order order = Guard::Order::kNewestFirst;
};

std::vector<StyleOfTree> EveryStyle() {
  std::vector<StyleOfTree> styles;
  styles.push_back({"guards", NewGuardsPolicy({})});
  styles.push_back({"leveled", NewLeveledPolicy({}), 1, Guard::Order::kByKey});
  styles.push_back({"full leveling", NewFullLevelingPolicy({}), 1, Guard::Order::kByKey});
  styles.push_back({"tiered", NewTieredPolicy({})});
  styles.push_back({"size-tiered", NewSizeTieredPolicy({}), 0});
  return styles;
}

// Why a single run is merged.
struct Reason {
  const char* name;
  std::optional<RoomLeft> room;  // None: somebody asks for it.
};
constexpr RoomLeft kWantedByOthers{.wanted = true};
const Reason kReasons[] = {{", asked for", std::nullopt},
                           {", for room", RoomLeft{0, 0, /*full=*/true}},
                           {", for others' room", kWantedByOthers}};

// A tree of a single run, in one level, and what a policy makes of it.
class SingleRun {
 public:
  SingleRun(StyleOfTree style, const Reason& reason, const std::vector<FakeTable>& tables)
      : style_(std::move(style)), room_(reason.room) {
    std::vector<TableRef> run;
    for (const FakeTable& table : tables) run.push_back(MakeFakeTable(table));
    std::vector<Level> levels;
    for (size_t i = 0; i < 3; ++i) {
      Level level(i == 0 ? Guard::Order::kNewestFirst : style_.order);
      if (i == style_.level) level = level.With(comparator_, {}, run);
      levels.push_back(std::move(level));
    }
    version_ = std::make_shared<const Version>(comparator_, std::move(levels));
  }

  // Merges while these snapshots live, until there is nothing to merge. How many were merges in
  // place; more than ten: they do not come to an end.
  size_t MergeAll(const Snapshots& live) {
    style_.policy->SetSnapshots(live);
    size_t merges = 0;
    for (auto pick = Pick(); pick.has_value() && merges <= 10; pick = Pick(), ++merges) {
      EXPECT_TRUE(pick->in_place());
      EXPECT_FALSE(pick->trivial_move);
      EXPECT_TRUE(pick->older.empty());
      std::vector<TableRef> outputs;
      for (const TableRef& input : pick->inputs) {
        TableMeta meta = input->meta();
        meta.number = next_number_++;
        if (live.empty()) meta.deletions = 0;
        outputs.push_back(
            std::make_shared<const Table>(std::make_unique<FakeTableReader>(meta), nullptr));
      }
      NoteKeepers(outputs, live);
      version_ = version_->With(EditOf(*pick, *version_, outputs, {}));
    }
    return merges;
  }

 private:
  std::optional<MergePick> Pick() {
    if (room_.has_value()) return style_.policy->PickForRoom(*version_, {}, *room_);
    bool done = false;
    auto pick = style_.policy->PickManual(*version_, {}, style_.level, ManualScope{}, &done);
    EXPECT_EQ(done, !pick.has_value());
    return pick;
  }

  const InternalKeyComparator comparator_{BytewiseComparator()};
  const StyleOfTree style_;
  const std::optional<RoomLeft> room_;
  std::shared_ptr<const Version> version_;
  uint64_t next_number_ = 100;
};

// Fails if what a snapshot kept stays for ever once it is released, for there is nothing to merge
// it with; if nothing but moves comes of it, or merges that have no end; or if what the others keep
// is merged in vain.
TEST(LeftoversTest, ASingleRunIsMergedForThem) {
  for (const Reason& reason : kReasons) {
    for (StyleOfTree& style : EveryStyle()) {
      SCOPED_TRACE(style.name + reason.name);
      SingleRun run(std::move(style), reason,
                    {{1, "a", "c", 2, 2}, {2, "d", "f", 9, 2, 64, 0, /*keepers=*/2}});
      EXPECT_EQ(run.MergeAll({3, 6}), 0u);
      EXPECT_EQ(run.MergeAll({3, 6, 20}), 0u) << "it came later";
      EXPECT_EQ(run.MergeAll({6, 20}), 1u);
      EXPECT_EQ(run.MergeAll({6}), 0u);
      EXPECT_EQ(run.MergeAll({}), 1u);
      EXPECT_EQ(run.MergeAll({}), 0u);
    }
  }
}

// The same of deletions, which a snapshot keeps that sees nothing else of a table, and of tables of
// which nobody knows what they hold.
TEST(LeftoversTest, ASingleRunIsMergedForDeletions) {
  for (const Reason& reason : kReasons) {
    for (StyleOfTree& style : EveryStyle()) {
      SCOPED_TRACE(style.name + reason.name);
      SingleRun run(std::move(style), reason, {{1, "d", "f", 9, 2, 64, 1, /*keepers=*/1}});
      EXPECT_EQ(run.MergeAll({1}), 0u);
      EXPECT_EQ(run.MergeAll({}), 1u);
      EXPECT_EQ(run.MergeAll({}), 0u);
    }
    for (StyleOfTree& style : EveryStyle()) {
      SCOPED_TRACE(style.name + reason.name);
      SingleRun run(std::move(style), reason, {{1, "d", "f", 9, 2, 64, 0, Table::kKeepersUnknown}});
      EXPECT_EQ(run.MergeAll({5}), 1u);
      EXPECT_EQ(run.MergeAll({5}), 0u);
      EXPECT_EQ(run.MergeAll({}), 1u);
    }
  }
}

// A single run of level 0, with deletions, above a table that another style has left deeper. Fails
// if it is merged for them again and again: they must stay, so nothing ever comes of it, and
// writers who wait for room would do so for ever.
TEST(LeftoversTest, DeletionsThatMustStayAreNotMergedAgainAndAgain) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const auto policy = NewSizeTieredPolicy({});
  const std::vector<TableRef> newer = {MakeFakeTable({2, "a", "z", 30, 20, 64, 1})};
  const std::vector<TableRef> older = {MakeFakeTable({1, "c", "x", 9, 2})};
  std::vector<Level> levels(3, Level(Guard::Order::kNewestFirst));
  levels[0] = levels[0].With(comparator, {}, newer);
  levels[1] = levels[1].With(comparator, {}, older);
  const Version version(comparator, std::move(levels));
  ASSERT_TRUE(HoldLeftovers(newer, {})) << "they would go if nothing older lay anywhere";
  EXPECT_FALSE(policy->PickForRoom(version, {}, RoomLeft{0, 0, true}).has_value());
  EXPECT_FALSE(policy->PickForRoom(version, {}, RoomLeft{64, 64, false}).has_value());
  EXPECT_FALSE(policy->PickForRoom(version, {}, kWantedByOthers).has_value());
  bool done = false;
  EXPECT_FALSE(policy->PickManual(version, {}, 0, ManualScope{}, &done).has_value());
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace dlsm
