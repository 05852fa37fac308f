#include "db/memtable/memtable_epochs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "db/test/bytewise_order_testing.h"
#include "db/test/no_manifest_testing.h"
#include "db/tree/tree.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Two shards of one handle.
class MemtableEpochsTest : public testing::Test {
 protected:
  static constexpr size_t kNoLimit = 100000;

  static std::vector<Level> TwoLevels() {
    return {Level(Guard::Order::kNewestFirst), Level(Guard::Order::kByKey)};
  }
  void Put(Tree* tree) {
    const Sequencer::Write write(epochs_.sequencer(), 1);
    EXPECT_TRUE(tree->MemtableOf(write.epoch())
                    .Add(write.first(), ValueType::kValue, "key", "value", false));
  }
  void PutAndSwitch(Tree* tree) {
    Put(tree);
    ASSERT_EQ(tree->Switch(0, kNoLimit), Tree::SwitchResult::kSwitched);
  }
  bool Shows(const Tree& tree, const ReadView& view) {
    return tree.Shows(view, epochs_.sequencer().Now().epoch);
  }
  static SequenceNumber NewestIn(const Memtable& memtable) {
    const std::unique_ptr<Iterator> entries = memtable.NewIterator();
    entries->SeekToFirst();
    return entries->Valid() ? TrailerSequence(ExtractTrailer(entries->key())) : 0;
  }

  NoManifest store_;
  MemtableEpochs epochs_{0};
  Tree one_{1 << 20, Bytewise(), Manifest(), TwoLevels(), &store_, &epochs_};
  Tree other_{1 << 20, Bytewise(), Manifest(), TwoLevels(), &store_, &epochs_};
};

// Fails if an epoch is used again while a write still looks for the memtable of its former use: the
// write would land in a memtable of its shard that is newer than its number.
TEST_F(MemtableEpochsTest, AnEpochIsNotUsedAgainUnderAWrite) {
  constexpr int kSwitches = 600;
  constexpr auto kNothingMoves = std::chrono::milliseconds(300);
  Put(&other_);
  const auto view = other_.views().Current();
  std::atomic<int> switches{0};
  std::thread switcher;
  {
    const Sequencer::Write held(epochs_.sequencer(), 1);  // Preempted before it looks further.
    switcher = std::thread([&] {
      PutAndSwitch(&other_);
      for (; switches < kSwitches; ++switches) PutAndSwitch(&one_);
    });
    // However long it is held: until nothing has moved for a while.
    auto moved_at = std::chrono::steady_clock::now();
    for (int seen = -1; std::chrono::steady_clock::now() < moved_at + kNothingMoves;) {
      const int now = switches;
      if (now == kSwitches) break;
      if (std::exchange(seen, now) != now) moved_at = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LT(switches, 256);
    Memtable& memtable = other_.MemtableOf(held.epoch());
    EXPECT_EQ(&memtable, view->active.get());
    EXPECT_TRUE(memtable.Add(held.first(), ValueType::kValue, "key", "value", false));
  }
  switcher.join();
  EXPECT_EQ(switches, kSwitches);
  // Every memtable of either shard has older numbers than the next newer one.
  for (Tree* tree : {&one_, &other_}) {
    const auto now = tree->views().Current();
    SequenceNumber newer = kSequenceNumberMax;
    for (const auto& memtable : now->immutables) {
      EXPECT_LT(NewestIn(*memtable), memtable->cut());
      EXPECT_LE(memtable->cut(), newer);
      newer = memtable->cut();
    }
  }
}

// Fails if a view is judged by an epoch that has come round: one that has all is refused, or one
// that lacks the newest memtable is taken.
TEST_F(MemtableEpochsTest, AViewIsAsNewAsItsMemtablesHoweverManyEpochsHavePassed) {
  Put(&other_);
  const auto view = other_.views().Current();
  for (int i = 0; i < 256; ++i) {
    EXPECT_TRUE(Shows(other_, *view)) << i;
    PutAndSwitch(&one_);
  }
  EXPECT_TRUE(Shows(other_, *view));
  PutAndSwitch(&other_);
  for (int i = 0; i < 256; ++i) {
    EXPECT_FALSE(Shows(other_, *view)) << i;
    EXPECT_TRUE(Shows(other_, *other_.views().Current())) << i;
    PutAndSwitch(&one_);
  }
}

// Fails if a batch over two shards takes the memtables of different moments: then a flush of one
// shard could take a part of it while numbers of the other part are still to come in a newer one.
TEST_F(MemtableEpochsTest, OneEpochNamesTheMemtablesOfAllShards) {
  const auto first_of_one = one_.views().Current()->active;
  const auto first_of_other = other_.views().Current()->active;
  {
    const Sequencer::Write batch(epochs_.sequencer(), 2);
    EXPECT_EQ(&one_.MemtableOf(batch.epoch()), first_of_one.get());
    EXPECT_EQ(&other_.MemtableOf(batch.epoch()), first_of_other.get());
  }
  PutAndSwitch(&one_);
  const Sequencer::Write batch(epochs_.sequencer(), 2);
  EXPECT_EQ(&one_.MemtableOf(batch.epoch()), one_.views().Current()->active.get());
  EXPECT_NE(&one_.MemtableOf(batch.epoch()), first_of_one.get());
  EXPECT_EQ(&other_.MemtableOf(batch.epoch()), first_of_other.get());
  EXPECT_LT(first_of_one->cut(), batch.first() + 1);
}

}  // namespace
}  // namespace dlsm
