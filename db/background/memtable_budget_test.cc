#include "db/background/memtable_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "db/memtable/memtable_epochs.h"
#include "db/test/no_manifest_testing.h"
#include "db/tree/tree.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Shards that are filled by hand; what is switched waits for a flush that never comes, as with a
// memory node that is dead.
class MemtableBudgetTest : public testing::Test {
 protected:
  static constexpr size_t kMemtableBytes = size_t{1} << 20;
  static constexpr size_t kMemtables = 4;
  static constexpr size_t kBudget = kMemtableBytes * kMemtables;

  void Make(size_t shards) {
    std::vector<Tree*> trees;
    for (size_t i = 0; i < shards; ++i) {
      trees_.push_back(std::make_unique<Tree>(kMemtableBytes, comparator_, Manifest(),
                                              std::vector<Level>{Level(Guard::Order::kNewestFirst)},
                                              &store_, &epochs_));
      trees.push_back(trees_.back().get());
    }
    budget_.Share(trees);
  }
  // Adds entries until the active memtable has at least so many bytes.
  void Fill(size_t shard, size_t bytes) {
    while (trees_[shard]->Usage().active_bytes < bytes) {
      const Sequencer::Write write(epochs_.sequencer(), 1);
      Memtable& memtable = trees_[shard]->MemtableOf(write.epoch());
      EXPECT_TRUE(memtable.Add(write.first(), ValueType::kValue, std::to_string(next_++),
                               std::string(4000, 'v'), false));
    }
  }
  size_t BytesOf(size_t shard) {
    const Tree::MemtableUsage usage = trees_[shard]->Usage();
    return usage.active_bytes + usage.immutable_bytes;
  }
  // Writes to a shard, as Background and writers do, until they would have to wait.
  void FillUntilItWaits(size_t shard) {
    while (true) {
      const MemtableBudget::Ruling ruling = budget_.RulingFor(*trees_[shard]);
      const auto switched = trees_[shard]->Switch(ruling.switch_at, ruling.immutables_max);
      if (ruling.must_wait || switched == Tree::SwitchResult::kTooManyMemtables) return;
      ASSERT_LE(BytesOf(shard), 2 * kBudget) << "it never waits";
      Fill(shard, trees_[shard]->Usage().active_bytes + (16 << 10));
    }
  }

  const InternalKeyComparator comparator_{BytewiseComparator()};
  NoManifest store_;
  MemtableEpochs epochs_{0};
  std::vector<std::unique_ptr<Tree>> trees_;
  MemtableBudget budget_{kMemtableBytes, kMemtables};
  uint64_t next_ = 0;
};

// Fails if a single shard is given anything but so many memtables of the full size.
TEST_F(MemtableBudgetTest, OneShardHasItAll) {
  Make(1);
  const MemtableBudget::Ruling ruling = budget_.RulingFor(*trees_[0]);
  EXPECT_EQ(ruling.switch_at, kMemtableBytes);
  EXPECT_EQ(ruling.immutables_max, kMemtables - 1);
  EXPECT_FALSE(ruling.must_wait);
  EXPECT_EQ(budget_.ShardToSwitch(), MemtableBudget::kNone);
  EXPECT_EQ(MemtableBudget::MostOfOneShard(kMemtableBytes, kMemtables, 1), kBudget);
}

// Fails if so many shards are let share so little that one could not have two memtables.
TEST_F(MemtableBudgetTest, EachShardNeedsTwoMemtables) {
  constexpr size_t kLeast = 4 * MemtableBudget::kMemtableBytesMin;
  EXPECT_OK(MemtableBudget::Check(kLeast, 4, 4));
  EXPECT_TRUE(MemtableBudget::Check(kLeast - 1, 4, 4).IsInvalidArgument());
  EXPECT_OK(MemtableBudget::Check(1, 2, 1));
}

// Fails if one shard alone cannot use the common half besides what it is guaranteed, or takes what
// is guaranteed to others.
TEST_F(MemtableBudgetTest, OneShardTakesTheCommonHalf) {
  Make(4);
  FillUntilItWaits(0);
  const size_t guaranteed = kBudget / 2 / 4;
  const size_t most = MemtableBudget::MostOfOneShard(kMemtableBytes, kMemtables, 4);
  EXPECT_EQ(most, kBudget / 2 + guaranteed);
  EXPECT_GE(BytesOf(0), most);
  EXPECT_LE(BytesOf(0), most + guaranteed / 2);
}

// Fails if a shard whose flushes never end keeps any other from what is guaranteed to it.
TEST_F(MemtableBudgetTest, ADeadShardStarvesNobody) {
  Make(4);
  FillUntilItWaits(0);
  const size_t guaranteed = kBudget / 2 / 4;
  for (size_t shard = 1; shard < 4; ++shard) {
    EXPECT_FALSE(budget_.RulingFor(*trees_[shard]).must_wait) << "it has nothing yet";
    FillUntilItWaits(shard);
    EXPECT_GE(BytesOf(shard), guaranteed);
    EXPECT_LE(BytesOf(shard), guaranteed * 3 / 2);
    EXPECT_GE(trees_[shard]->Usage().immutables, 1u) << "something to flush, or it waits for ever";
  }
  size_t all = 0;
  for (size_t shard = 0; shard < 4; ++shard) all += BytesOf(shard);
  EXPECT_LE(all, kBudget + kBudget / 8);
}

// Fails if room is not made where most is to be had.
TEST_F(MemtableBudgetTest, TheLargestGoesFirst) {
  Make(2);
  Fill(0, kBudget / 4);
  EXPECT_EQ(budget_.ShardToSwitch(), MemtableBudget::kNone) << "there is room";
  Fill(0, kBudget / 2);
  Fill(1, kBudget / 2 + (64 << 10));
  EXPECT_EQ(budget_.ShardToSwitch(), 1u);
  EXPECT_LT(budget_.RulingFor(*trees_[0]).switch_at, kMemtableBytes);
}

// Fails if writers are slowed down by what is not on its way out, or not by what is.
TEST_F(MemtableBudgetTest, PressureIsOfWhatWaitsForItsFlush) {
  Make(2);
  Fill(0, kMemtableBytes);
  EXPECT_EQ(budget_.Pressure(*trees_[0]), 0);
  ASSERT_EQ(trees_[0]->Switch(0, 100), Tree::SwitchResult::kSwitched);
  Fill(0, kMemtableBytes);
  ASSERT_EQ(trees_[0]->Switch(0, 100), Tree::SwitchResult::kSwitched);
  const double pressure = budget_.Pressure(*trees_[0]);
  EXPECT_GT(pressure, 0.4);
  EXPECT_LT(pressure, 0.7);
}

}  // namespace
}  // namespace dlsm
