// What the threads do that keep the house, a step at a time, where tables go to two memory nodes.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/background/background.h"
#include "db/memtable/memtable_epochs.h"
#include "db/merge/merge_policies.h"
#include "db/nodes/manifest_store.h"
#include "db/test/fake_memory_node_testing.h"
#include "db/test/no_manifest_testing.h"
#include "port/failing_allocations_testing.h"
#include "table/node_queue_pairs.h"
#include "util/status_testing.h"
#include "util/watchdog_testing.h"

namespace dlsm {
namespace {

constexpr size_t kHome = 0;
constexpr size_t kOther = 1;

// Counts how often somebody looks for a merge; there is none.
class WatchedPolicy final : public MergePolicy {
 public:
  explicit WatchedPolicy(int* looks) : looks_(looks) {}
  std::optional<MergePick> Pick(const Version&, const TablesInMerge&) override {
    ++*looks_;
    return std::nullopt;
  }
  // Has to wait until somebody has looked.
  std::optional<MergePick> PickManual(const Version&, const TablesInMerge&, size_t,
                                      const ManualScope&, bool* done) override {
    *done = *looks_ > 0;
    return std::nullopt;
  }
  size_t ManualLevels(const Version&, const Slice*, const Slice*) const override { return 1; }
  size_t ExpectedComponents(const Version&) const override { return 1; }
  uint64_t PendingBytes(const Version&) const override { return 0; }

 private:
  int* const looks_;
};

// A shard without threads.
class BackgroundHouseTest : public testing::Test {
 protected:
  static constexpr size_t kMemtableBytes = size_t{1} << 20;
  static constexpr size_t kMemtables = 4;
  static constexpr uint64_t kNodeBytes = uint64_t{1} << 40;

  BackgroundHouseTest() { budget_.Share({&tree_}); }

  static PlacedMemory::Config OverBoth() {
    PlacedMemory::Config config;
    config.placement = TablePlacement::kRoundRobin;
    return config;
  }
  static std::vector<Level> TwoLevels() {
    return {Level(Guard::Order::kNewestFirst), Level(Guard::Order::kByKey)};
  }
  MergeNode NodeOf(FakeMemoryNode* memory_node) {
    MergeNode node;
    node.rpc = memory_node;
    node.load = &load_;
    return node;
  }

  Background::Parts Parts() {
    return {.tree = &tree_,
            .store = &tables_,
            .manifests = &manifests_,
            .gate = &gate_,
            .nodes = {NodeOf(&home_), NodeOf(&other_)},
            .snapshots = &snapshots_,
            .scheduler = &scheduler_,
            .budget = &budget_,
            .signal = &signal_,
            .read_merges = &read_merges_,
            .fence = &fence_,
            .callers = &callers_,
            .statistics = &statistics_,
            .writers_wait = [] { return false; },
            .home_lost = {}};
  }

  void FillMemtable() {
    while (tree_.Usage().active_bytes < kMemtableBytes) {
      const Sequencer::Write write(epochs_.sequencer(), 1);
      EXPECT_TRUE(tree_.MemtableOf(write.epoch())
                      .Add(write.first(), ValueType::kValue, "key", std::string(4000, 'v'), false));
    }
  }
  // The home has no room, and the other one does not answer.
  void LeaveNoRoom() {
    uint64_t offset = 0;
    ASSERT_TRUE(home_.Take(kNodeBytes, &offset));
    RemoteSpan span;
    ASSERT_TRUE(memory_->Allocate(64, PlacedMemory::WhenFull::kBusy, {kHome}, &span).IsBusy());
    memory_->NoteSilence(kOther);
  }

  Statistics statistics_;
  FakeMemoryNode home_{kNodeBytes};
  FakeMemoryNode other_{kNodeBytes};
  const std::shared_ptr<PlacedMemory> memory_ = std::make_shared<PlacedMemory>(
      OverBoth(),
      std::vector<PlacedMemory::Node>{PlacedMemory::Node{NodeId{1}, &home_, 0, {}},
                                      PlacedMemory::Node{NodeId{2}, &other_, 0, {}}},
      &statistics_);
  NodeQueuePairs queue_pairs_;  // Nothing is read or written.
  const InternalKeyComparator comparator_{BytewiseComparator()};
  const TableStore tables_{TableStore::Config(), &queue_pairs_, memory_, &statistics_};
  NoManifest no_manifest_;
  PlacedManifestStore manifests_{&no_manifest_};
  MemtableEpochs epochs_{0};
  Tree tree_{kMemtableBytes, comparator_, Manifest(), TwoLevels(), &no_manifest_, &epochs_};
  StallGate gate_{std::chrono::milliseconds(1), &statistics_};
  MemtableBudget budget_{kMemtableBytes, kMemtables};
  SnapshotList snapshots_;
  MergeScheduler scheduler_{MergeSchedulerOptions()};
  MergeLoadMonitor load_{MergeLoadMonitor::Config(), &scheduler_};
  WorkSignal signal_;
  ReadMergePacer read_merges_;
  Fence fence_;
  CallerWork callers_{/*own_code=*/false, &signal_};
  Background background_{Background::Config(), Parts(), NewMergePolicy(Options())};
};

// Of the application's own code. Flushes find no room. Fails if a caller that waits for one leaves
// it to threads to look for merges that make some: they leave these to callers, and there may be
// none.
TEST_F(BackgroundHouseTest, ACallerThatFindsNoRoomLooksForMerges) {
  CallerWork callers(/*own_code=*/true, &signal_);
  Background::Parts parts = Parts();
  parts.callers = &callers;
  int looks = 0;
  Background background(Background::Config(), parts, std::make_unique<WatchedPolicy>(&looks));
  FillMemtable();
  ASSERT_NO_FATAL_FAILURE(LeaveNoRoom());
  const Status flushed = background.AwaitFlush(Background::Clock::now());
  EXPECT_TRUE(flushed.IsBusy()) << flushed.ToString();
  EXPECT_GT(looks, 0);
  looks = 0;
  auto due = Background::Clock::time_point::max();
  const CallerWork::Turn turn(&callers, CallerWork::Turn::Kind::kFlush);
  EXPECT_FALSE(background.MergeOne(&due));
  EXPECT_FALSE(background.MergeWhileIdle(&due));
  EXPECT_FALSE(background.FlushOne(&due));
  EXPECT_EQ(looks, 0);
}

// Of the application's own code. What a caller compacts has to wait for a merge that is due. Hangs
// if it leaves that to threads, which leave it to callers.
TEST_F(BackgroundHouseTest, ACallerThatCompactsLooksForMergesThatComeFirst) {
  const Watchdog watchdog(std::chrono::seconds(30));
  CallerWork callers(/*own_code=*/true, &signal_);
  Background::Parts parts = Parts();
  parts.callers = &callers;
  int looks = 0;
  Background background(Background::Config(), parts, std::make_unique<WatchedPolicy>(&looks));
  EXPECT_OK(background.CompactRange(Background::Clock::now(), nullptr, nullptr));
  EXPECT_EQ(looks, 1);
}

// A memtable was full when there was no memory for the next one; there is some when the house of
// the memory node that does not answer is kept. Fails if the flush threads do not hear of the
// switch because there is still no room: they would come with the next heartbeat, or whatever else
// wakes them. Or if they are woken each time.
TEST_F(BackgroundHouseTest, AMemtableSwitchedWhileThereIsNoRoomIsDueAtOnce) {
  FillMemtable();
  ASSERT_NO_FATAL_FAILURE(LeaveNoRoom());
  {
    const port::FailingAllocations failing(1);
    background_.LookAtMemtable();
    ASSERT_GT(failing.failed(), 0u);
  }
  ASSERT_EQ(tree_.Memtables().immutable, 0u);
  ASSERT_TRUE(gate_.closed(StallReason::kMemory));
  const uint64_t before = signal_.count();
  background_.KeepHouse(kOther);
  EXPECT_EQ(tree_.Memtables().immutable, 1u);
  EXPECT_TRUE(gate_.closed(StallReason::kMemory));
  const uint64_t after = signal_.count();
  EXPECT_GT(after, before);
  background_.KeepHouse(kOther);
  EXPECT_EQ(signal_.count(), after) << "nothing has changed";
}

// Fails if the threads are woken for the switch, and once more for the look.
TEST_F(BackgroundHouseTest, WhoLooksAtAFullMemtableWakesTheThreadsOnce) {
  FillMemtable();
  const uint64_t before = signal_.count();
  background_.LookAtMemtable();
  EXPECT_EQ(tree_.Memtables().immutable, 1u);
  EXPECT_EQ(signal_.count(), before + 1);
}

// Fails if what a flush has left of its grant stays with a database that nobody writes to, or is
// taken from one that somebody does write to.
TEST_F(BackgroundHouseTest, AnIdleDatabaseGivesBackWhatGrantsHaveLeft) {
  const auto leave_some = [this] {
    RemoteSpan span;
    ASSERT_OK(memory_->Allocate(64 << 10, PlacedMemory::WhenFull::kBusy, {kHome}, &span));
    span.node = NodeId{1};  // The fake does not know its number.
    memory_->Shrink(span, 4096);
  };
  ASSERT_NO_FATAL_FAILURE(leave_some());
  background_.KeepHouse(kHome);
  EXPECT_EQ(home_.used_bytes(), 4096u);
  statistics_.Add(Ticker::kKeysWritten);
  background_.KeepHouse(kHome);
  ASSERT_NO_FATAL_FAILURE(leave_some());
  background_.KeepHouse(kHome);
  EXPECT_EQ(home_.used_bytes(), (64u << 10) + 4096);
}

}  // namespace
}  // namespace dlsm
