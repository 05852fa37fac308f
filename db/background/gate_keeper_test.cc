#include "db/background/gate_keeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "db/memtable/memtable_epochs.h"
#include "db/test/fake_memory_node_testing.h"
#include "db/test/fake_table_testing.h"
#include "db/test/no_manifest_testing.h"
#include "port/failing_allocations_testing.h"
#include "table/node_queue_pairs.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// A shard that is written, flushed and merged by hand. Nobody writes through the gate.
class GateKeeperTest : public testing::Test {
 protected:
  static constexpr size_t kMemtableBytes = size_t{1} << 20;
  // One that is written to, and one that waits to be flushed.
  static constexpr size_t kMemtables = 2;
  static constexpr uint64_t kNodeBytes = uint64_t{1} << 40;

  GateKeeperTest() { budget_.Share({&tree_}); }

  static std::vector<Level> TwoLevels() {
    return {Level(Guard::Order::kNewestFirst), Level(Guard::Order::kByKey)};
  }

  GateKeeper KeeperWith(const GateKeeper::Config& config) {
    return GateKeeper(
        config, {.tree = &tree_,
                 .store = &tables_,
                 .gate = &gate_,
                 .budget = &budget_,
                 .expected_components = [this](const Version&) { return expected_components_; }});
  }

  void Put(size_t value_bytes) {
    const Sequencer::Write write(epochs_.sequencer(), 1);
    const std::string value(value_bytes, 'v');
    EXPECT_TRUE(
        tree_.MemtableOf(write.epoch()).Add(write.first(), ValueType::kValue, "key", value, false));
  }
  void PutLittle() { Put(10); }
  void Fill(size_t bytes) {
    while (tree_.Usage().active_bytes < bytes) Put(4000);
  }
  uint64_t ActiveNumber() const { return tree_.Memtables().newest_number; }

  // The oldest memtable that waits is flushed; nothing of it is worth a table.
  void Flush() {
    const std::shared_ptr<Memtable> memtable = tree_.TakeForFlush();
    ASSERT_NE(memtable, nullptr);
    ASSERT_OK(tree_.InstallFlush(memtable, {}));
  }
  // Something is written and flushed into a table of level 0 that overlaps the others there.
  void AddTable(GateKeeper* keeper) {
    PutLittle();
    const SequenceNumber sequence = tree_.sequencer().Now().next - 1;
    ASSERT_TRUE(keeper->SwitchForFlush(ActiveNumber()).switched);
    const std::shared_ptr<Memtable> memtable = tree_.TakeForFlush();
    ASSERT_NE(memtable, nullptr);
    const FakeTable table{tree_.NewTableNumber(), "a", "z", sequence, sequence};
    ASSERT_OK(tree_.InstallFlush(memtable, {MakeFakeTable(table, memory_)}));
    keeper->Judge();
  }
  // The oldest table of level 0 is merged away.
  void DropTable(GateKeeper* keeper) {
    const std::shared_ptr<const Version> version = tree_.views().Current()->version;
    VersionEdit edit(1);
    edit.levels[0].removed.push_back(version->levels()[0].sentinel().tables.back()->number());
    ASSERT_OK(tree_.InstallMerge(edit));
    keeper->Judge();
  }

  Statistics statistics_;
  FakeMemoryNode node_{kNodeBytes};
  // Of one node, whose number fake tables have.
  const std::shared_ptr<PlacedMemory> memory_ = std::make_shared<PlacedMemory>(
      PlacedMemory::Config(),
      std::vector<PlacedMemory::Node>{PlacedMemory::Node{NodeId{}, &node_, 0, {}}}, &statistics_);
  NodeQueuePairs queue_pairs_;  // Nothing is read or written.
  const InternalKeyComparator comparator_{BytewiseComparator()};
  const TableStore tables_{TableStore::Config(), &queue_pairs_, memory_, &statistics_};
  NoManifest manifests_;
  MemtableEpochs epochs_{0};
  Tree tree_{kMemtableBytes, comparator_, Manifest(), TwoLevels(), &manifests_, &epochs_};
  StallGate gate_{std::chrono::milliseconds(1), &statistics_};
  MemtableBudget budget_{kMemtableBytes, kMemtables};
  size_t expected_components_ = 1;
};

// Fails if who asks for a flush waits for a memtable that has nothing to be flushed, takes another
// one that is empty for his, or is not told that his is on its way.
TEST_F(GateKeeperTest, WhoAsksForAFlushLearnsWhatBecomesOfTheMemtable) {
  GateKeeper keeper = KeeperWith({});
  GateKeeper::AskedSwitch asked = keeper.SwitchForFlush(0);
  EXPECT_FALSE(asked.switched);
  EXPECT_TRUE(asked.is_empty);
  EXPECT_FALSE(asked.no_memory_since.has_value());

  PutLittle();
  asked = keeper.SwitchForFlush(0);
  EXPECT_TRUE(asked.switched) << "full or not";
  EXPECT_FALSE(asked.is_empty);
  EXPECT_FALSE(asked.no_memory_since.has_value());
  EXPECT_EQ(ActiveNumber(), 1u);

  asked = keeper.SwitchForFlush(0);  // As one who was slower does.
  EXPECT_FALSE(asked.switched);
  EXPECT_FALSE(asked.is_empty) << "the next one is";
}

// Fails if a flush that was asked for while too many memtables waited is forgotten, closes the gate
// though there is room in the memtable, or has the memtable after it switched, too.
TEST_F(GateKeeperTest, AMemtableAskedForIsSwitchedOnceThereIsRoom) {
  GateKeeper keeper = KeeperWith({});
  PutLittle();
  ASSERT_TRUE(keeper.SwitchForFlush(0).switched);
  PutLittle();
  const GateKeeper::AskedSwitch asked = keeper.SwitchForFlush(1);
  EXPECT_FALSE(asked.switched);
  EXPECT_FALSE(asked.is_empty);
  EXPECT_FALSE(asked.no_memory_since.has_value());
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 1u);
  EXPECT_FALSE(gate_.closed());
  EXPECT_FALSE(keeper.must_judge_again()) << "whoever makes room does";

  Flush();
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 2u);
  Flush();
  PutLittle();
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 2u) << "nobody has asked for this one";
}

// Fails if writers go on though the active memtable is full and as many wait as may, or do not go
// on once one of these has been flushed.
TEST_F(GateKeeperTest, WritersWaitWhileAFullMemtableCannotBeSwitched) {
  GateKeeper keeper = KeeperWith({});
  Fill(kMemtableBytes);
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 1u);
  EXPECT_FALSE(gate_.closed());
  Fill(kMemtableBytes);
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 1u);
  EXPECT_TRUE(gate_.closed(StallReason::kMemtables));

  Flush();
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 2u);
  EXPECT_FALSE(gate_.closed());
}

// Fails if the gate is open with as many tables in level 0 as the limit, or stays closed with less.
TEST_F(GateKeeperTest, Level0AtItsLimitClosesTheGate) {
  GateKeeper::Config config;
  config.level0_stop_trigger = 3;
  GateKeeper keeper = KeeperWith(config);
  AddTable(&keeper);
  AddTable(&keeper);
  EXPECT_FALSE(gate_.closed());
  AddTable(&keeper);
  EXPECT_TRUE(gate_.closed(StallReason::kLevel0));
  DropTable(&keeper);
  EXPECT_FALSE(gate_.closed());
}

// Fails if the gate is open with as many components as the limit, or stays closed with less; or if
// a limit stops writers where merges could not make it less.
TEST_F(GateKeeperTest, ComponentsAtTheirLimitCloseTheGate) {
  GateKeeper::Config config;
  config.constraint = ComponentConstraint::kGlobal;
  config.components_max = 3;
  config.level0_stop_trigger = 1;  // Of the other constraint.
  GateKeeper keeper = KeeperWith(config);
  AddTable(&keeper);
  AddTable(&keeper);
  EXPECT_FALSE(gate_.closed());
  AddTable(&keeper);
  EXPECT_TRUE(gate_.closed(StallReason::kComponents));
  DropTable(&keeper);
  EXPECT_FALSE(gate_.closed());

  AddTable(&keeper);
  EXPECT_TRUE(gate_.closed(StallReason::kComponents));
  expected_components_ = 3;
  keeper.Judge();
  EXPECT_FALSE(gate_.closed()) << "one more than expected may always be there";
}

// Fails if what is expected says nothing of how many components there may be.
TEST_F(GateKeeperTest, TwiceTheExpectedComponentsAreTheLimitUnlessOneIsSet) {
  GateKeeper::Config config;
  config.constraint = ComponentConstraint::kGlobal;
  expected_components_ = 2;
  GateKeeper keeper = KeeperWith(config);
  for (int i = 0; i < 3; ++i) AddTable(&keeper);
  EXPECT_FALSE(gate_.closed());
  AddTable(&keeper);
  EXPECT_TRUE(gate_.closed(StallReason::kComponents));
}

// Fails if writers go on while memory nodes have no room, or wait when they have room again.
TEST_F(GateKeeperTest, AFullMemoryNodeClosesTheGate) {
  GateKeeper keeper = KeeperWith({});
  uint64_t offset = 0;
  ASSERT_TRUE(node_.Take(kNodeBytes, &offset));
  RemoteSpan span;
  ASSERT_TRUE(memory_->Allocate(64, PlacedMemory::WhenFull::kBusy, {0}, &span).IsBusy());
  keeper.Judge();
  EXPECT_TRUE(gate_.closed(StallReason::kMemory));
  const Status refused = gate_.Pass(/*only_deletes=*/false, 100);
  EXPECT_TRUE(refused.IsBusy());
  EXPECT_NE(refused.ToString().find("the fake is full"), std::string::npos) << refused.ToString();

  ASSERT_OK(node_.Return(offset, kNodeBytes));
  ASSERT_TRUE(memory_->RefillReserve(0));
  keeper.Judge();
  EXPECT_FALSE(gate_.closed());
}

// Fails if writers are slowed down while no merge is due, are stopped where they are to be slowed
// down, or stay slow when merges have caught up.
TEST_F(GateKeeperTest, WritersAreSlowedDownBeyondTheMergeTrigger) {
  GateKeeper::Config config;
  config.level0_merge_trigger = 2;
  config.level0_stop_trigger = 4;
  config.slow_down_writes = true;
  GateKeeper keeper = KeeperWith(config);
  AddTable(&keeper);
  AddTable(&keeper);
  EXPECT_FALSE(gate_.closed(StallReason::kSlowed));
  AddTable(&keeper);
  EXPECT_TRUE(gate_.closed(StallReason::kSlowed));
  EXPECT_FALSE(gate_.closed());
  DropTable(&keeper);
  EXPECT_FALSE(gate_.closed(StallReason::kSlowed));
}

// Fails if a full memtable stays because there was no memory for the next one when it became full.
TEST_F(GateKeeperTest, AFullMemtableWithoutMemoryForTheNextIsSwitchedLater) {
  GateKeeper keeper = KeeperWith({});
  Fill(kMemtableBytes);
  {
    const port::FailingAllocations failing(1);
    EXPECT_FALSE(keeper.Judge());
    EXPECT_GT(failing.failed(), 0u);
  }
  EXPECT_EQ(ActiveNumber(), 0u);
  EXPECT_TRUE(keeper.must_judge_again());
  EXPECT_TRUE(keeper.Judge()) << "nobody would flush it";
  EXPECT_EQ(ActiveNumber(), 1u);
  EXPECT_FALSE(keeper.must_judge_again());
  EXPECT_FALSE(keeper.Judge());
}

// Fails if who waits for a flush is not told that memory is what it lacks, if that begins anew each
// time that he asks, so that he never gives up, or if his memtable is forgotten.
TEST_F(GateKeeperTest, WhoAsksForAFlushLearnsSinceWhenThereIsNoMemory) {
  GateKeeper keeper = KeeperWith({});
  PutLittle();
  {
    const port::FailingAllocations failing(1);
    const GateKeeper::AskedSwitch asked = keeper.SwitchForFlush(0);
    EXPECT_FALSE(asked.switched);
    EXPECT_FALSE(asked.is_empty);
    ASSERT_TRUE(asked.no_memory_since.has_value());
    auto now = GateKeeper::Clock::now();
    while (now == *asked.no_memory_since) now = GateKeeper::Clock::now();
    EXPECT_TRUE(keeper.SwitchForFlush(0).no_memory_since == asked.no_memory_since);
  }
  EXPECT_TRUE(keeper.must_judge_again());
  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 1u);
  EXPECT_FALSE(keeper.must_judge_again());
}

// Fails if a switch that somebody has asked for leaves behind that there was no memory for it: the
// next one who waits would be told so.
TEST_F(GateKeeperTest, MemoryThatIsThereAgainIsNotMissed) {
  GateKeeper keeper = KeeperWith({});
  PutLittle();
  {
    const port::FailingAllocations failing(1);
    EXPECT_TRUE(keeper.SwitchForFlush(0).no_memory_since.has_value());
  }
  const GateKeeper::AskedSwitch asked = keeper.SwitchForFlush(0);
  EXPECT_TRUE(asked.switched);
  EXPECT_FALSE(asked.no_memory_since.has_value());
  EXPECT_FALSE(keeper.must_judge_again());
}

// Fails if writers are told that flushes make no progress where there is nothing to be flushed, but
// a full memtable and no memory for the next one.
TEST_F(GateKeeperTest, WritersLearnThatThereIsNoMemoryForTheNextMemtable) {
  Tree other(kMemtableBytes, comparator_, Manifest(), TwoLevels(), &manifests_, &epochs_);
  budget_.Share({&tree_, &other});
  GateKeeper keeper = KeeperWith({});
  Fill(2 * kMemtableBytes);  // More than the shard may have.
  {
    const port::FailingAllocations failing(1);
    keeper.Judge();
  }
  EXPECT_TRUE(gate_.closed(StallReason::kMemtables));
  const Status refused = gate_.Pass(/*only_deletes=*/false, 100);
  EXPECT_TRUE(refused.IsBusy());
  EXPECT_NE(refused.ToString().find("there is none to take the place"), std::string::npos)
      << refused.ToString();

  keeper.Judge();
  EXPECT_EQ(ActiveNumber(), 1u);
  Flush();
  keeper.Judge();
  EXPECT_FALSE(gate_.closed());
}

}  // namespace
}  // namespace dlsm
