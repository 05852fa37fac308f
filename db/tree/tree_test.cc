#include "db/tree/tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "db/test/bytewise_order_testing.h"
#include "db/test/fake_memory_node_testing.h"
#include "db/test/fake_table_testing.h"
#include "port/failing_allocations_testing.h"
#include "port/sync_point.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class FakeManifestStore final : public ManifestStore {
 public:
  Status Put(const std::string& bytes, std::vector<RemoteSpan> live) override {
    if (before_put) {
      const Status status = before_put();
      if (!status.ok()) return status;
    }
    ++puts;
    manifest = bytes;
    live_spans = std::move(live);
    return Status::OK();
  }

  std::function<Status()> before_put;
  int puts = 0;
  std::string manifest;
  std::vector<RemoteSpan> live_spans;
};

class TreeTest : public testing::Test {
 protected:
  static std::vector<Level> TwoLevels() {
    return {Level(Guard::Order::kNewestFirst), Level(Guard::Order::kByKey)};
  }

  void Put(const std::string& key) {
    const Sequencer::Write write(tree_.sequencer(), 1);
    EXPECT_TRUE(
        tree_.MemtableOf(write.epoch()).Add(write.first(), ValueType::kValue, key, "value", false));
  }
  // Puts a key and makes its memtable immutable.
  std::shared_ptr<Memtable> PutAndTake(const std::string& key) {
    Put(key);
    EXPECT_EQ(SwitchAny(), Tree::SwitchResult::kSwitched);
    return tree_.TakeForFlush();
  }
  TableRef NewTable(const std::string& key, SequenceNumber sequence) {
    FakeTable table{tree_.NewTableNumber(), key, key, sequence, sequence};
    return MakeFakeTable(table, memory_);
  }
  std::vector<uint64_t> Level0() {
    return NumbersOf(tree_.views().Current()->version->levels()[0].sentinel().tables);
  }

  static constexpr size_t kMemtableBytes = 1 << 20;
  static constexpr size_t kImmutablesMax = 3;
  Tree::SwitchResult SwitchAny() { return tree_.Switch(0, kImmutablesMax); }

  Statistics statistics_;
  FakeMemoryNode node_{uint64_t{1} << 40};
  // Of one node, whose number fake tables have.
  const std::shared_ptr<PlacedMemory> memory_ = std::make_shared<PlacedMemory>(
      PlacedMemory::Config(),
      std::vector<PlacedMemory::Node>{PlacedMemory::Node{NodeId{}, &node_, 0, {}}}, &statistics_);
  FakeManifestStore store_;
  MemtableEpochs epochs_{0};
  Tree tree_{kMemtableBytes, Bytewise(), Manifest(), TwoLevels(), &store_, &epochs_};
};

// Fails if ingested tables do not wait for the memtable that they follow, or lie behind its tables,
// or if numbers do not go on behind theirs.
TEST_F(TreeTest, IngestedTablesEnterWithTheMemtableBeforeThem) {
  const std::shared_ptr<Memtable> older = PutAndTake("key");
  Put("key");
  constexpr SequenceNumber kNumber = SequenceNumber{1} << 30;
  const TableRef ingested = NewTable("key", kNumber);
  uint64_t memtable = 0;
  ASSERT_OK(tree_.SwitchForIngest(kNumber, {ingested}, &memtable));
  Put("key");
  EXPECT_GT(epochs_.sequencer().Now().next, kNumber + 1);
  EXPECT_EQ(tree_.views().Current()->awaits, kNumber);
  EXPECT_FALSE(tree_.views().Current()->Complete(kNumber));
  EXPECT_TRUE(tree_.views().Current()->Complete(kNumber - 1));
  const std::shared_ptr<Memtable> before = tree_.TakeForFlush();
  EXPECT_EQ(before->number(), memtable);
  EXPECT_LT(before->cut(), kNumber);
  const TableRef of_before = NewTable("key", 2);
  ASSERT_OK(tree_.InstallFlush(before, {of_before}));
  EXPECT_THAT(Level0(), testing::IsEmpty()) << "an older memtable is not flushed yet";
  const TableRef of_older = NewTable("key", 1);
  ASSERT_OK(tree_.InstallFlush(older, {of_older}));
  EXPECT_THAT(Level0(),
              testing::ElementsAre(ingested->number(), of_before->number(), of_older->number()));
  EXPECT_EQ(tree_.views().Current()->awaits, 0u);
  std::vector<TableRef> withdrawn;
  EXPECT_FALSE(tree_.WithdrawIngest(memtable, &withdrawn)) << "they are there";
}

TEST_F(TreeTest, WithdrawnTablesAreNeverInstalled) {
  Put("key");
  constexpr SequenceNumber kNumber = SequenceNumber{1} << 30;
  uint64_t memtable = 0;
  ASSERT_OK(tree_.SwitchForIngest(kNumber, {NewTable("key", kNumber)}, &memtable));
  std::vector<TableRef> withdrawn;
  EXPECT_TRUE(tree_.WithdrawIngest(memtable, &withdrawn));
  EXPECT_EQ(withdrawn.size(), 1u);
  EXPECT_EQ(tree_.views().Current()->awaits, 0u);
  const std::shared_ptr<Memtable> before = tree_.TakeForFlush();
  const TableRef of_before = NewTable("key", 1);
  ASSERT_OK(tree_.InstallFlush(before, {of_before}));
  EXPECT_THAT(Level0(), testing::ElementsAre(of_before->number()));
}

// Fails if tables get a number that writes have reached: they would hide what is newer.
TEST_F(TreeTest, RefusesIngestsThatWritesHaveCaughtUpWith) {
  Put("key");
  const SequenceNumber near = epochs_.sequencer().Now().next + 1000;
  uint64_t memtable = 0;
  EXPECT_TRUE(tree_.SwitchForIngest(near, {NewTable("key", near)}, &memtable).IsBusy());
  EXPECT_EQ(tree_.Memtables().immutable, 0u);
  EXPECT_EQ(epochs_.sequencer().Now().next, near - 1000);
}

// Fails if an empty memtable is switched, a full set of memtables grows, or a switch goes unseen.
TEST_F(TreeTest, SwitchesWhatHoldsSomething) {
  EXPECT_EQ(SwitchAny(), Tree::SwitchResult::kNotNeeded);
  for (int i = 0; i < 3; ++i) {
    Put("key");
    EXPECT_EQ(tree_.Switch(kMemtableBytes, kImmutablesMax), Tree::SwitchResult::kNotNeeded)
        << "not full";
    EXPECT_EQ(SwitchAny(), Tree::SwitchResult::kSwitched);
  }
  Put("key");
  EXPECT_EQ(SwitchAny(), Tree::SwitchResult::kTooManyMemtables);
  const auto view = tree_.views().Current();
  ASSERT_EQ(view->immutables.size(), 3u);
  EXPECT_GT(view->active->number(), view->immutables[0]->number());
  EXPECT_GT(view->immutables[0]->number(), view->immutables[2]->number()) << "newest first";
  EXPECT_EQ(tree_.Memtables().immutable, 3u);
}

// Fails if a switch for which there is no memory is done by half: then writes would go to a
// memtable that no reader finds, or to one that is to be flushed.
TEST_F(TreeTest, ASwitchWithoutMemoryDoesNothing) {
  Put("before");
  uint64_t n = 1;
  for (bool failed = true; failed; ++n) {
    const auto view = tree_.views().Current();
    const port::FailingAllocations failing(n);
    const Tree::SwitchResult result = SwitchAny();
    failed = failing.failed() > 0;
    EXPECT_EQ(result, failed ? Tree::SwitchResult::kNoMemory : Tree::SwitchResult::kSwitched);
    if (failed) {
      EXPECT_EQ(tree_.views().Current(), view);
      EXPECT_EQ(tree_.Memtables().newest_number, 0u);
      EXPECT_FALSE(tree_.HasMemtableToFlush());
      EXPECT_EQ(&tree_.MemtableOf(tree_.sequencer().Now().epoch), view->active.get());
    }
  }
  EXPECT_GT(n, 2u);
  EXPECT_EQ(tree_.Memtables().newest_number, 1u);
  EXPECT_EQ(tree_.Memtables().immutable, 1u);
}

// Fails if a switch takes the last key of a memtable for granted because it has seen the first one:
// all that there is may be a batch, which is withdrawn meanwhile for want of memory.
TEST_F(TreeTest, ASwitchMeetsABatchThatIsBeingWithdrawn) {
  static Memtable* memtable;
  {
    const Sequencer::Write batch(tree_.sequencer(), 2);
    memtable = &tree_.MemtableOf(batch.epoch());
    EXPECT_TRUE(memtable->Add(batch.first(), ValueType::kValue, "first", "value", true));
    EXPECT_TRUE(memtable->Add(batch.first() + 1, ValueType::kValue, "second", "value", true));
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::strcmp(place, "switch: first key read") == 0) memtable->Withdraw(1, 2);
    };
    EXPECT_EQ(SwitchAny(), Tree::SwitchResult::kSwitched);
    port::SyncPointHookOfProcess() = nullptr;
  }
  const std::shared_ptr<Memtable> taken = tree_.TakeForFlush();
  ASSERT_EQ(taken.get(), memtable);
  const std::unique_ptr<Iterator> entries = taken->NewIterator();
  entries->SeekToFirst();
  EXPECT_FALSE(entries->Valid());
}

// Fails if a flush that ends before an older one becomes visible first: its tables would be taken
// for older than those of the memtable that still waits.
TEST_F(TreeTest, InstallsFlushesInTheOrderOfMemtables) {
  const auto older = PutAndTake("a");
  const auto newer = PutAndTake("b");
  const TableRef newer_table = NewTable("b", 2);
  ASSERT_OK(tree_.InstallFlush(newer, {newer_table}));
  EXPECT_EQ(Level0().size(), 0u);
  EXPECT_EQ(tree_.Memtables().immutable, 2u);
  const TableRef older_table = NewTable("a", 1);
  ASSERT_OK(tree_.InstallFlush(older, {older_table}));
  EXPECT_EQ(Level0(), (std::vector<uint64_t>{newer_table->number(), older_table->number()}));
  EXPECT_EQ(tree_.Memtables().immutable, 0u);
  EXPECT_EQ(store_.live_spans.size(), 2u);
}

// Fails if a change becomes visible that the memory node does not know.
TEST_F(TreeTest, ShowsNothingThatTheManifestLacks) {
  const auto memtable = PutAndTake("a");
  store_.before_put = [] { return Status::IOError("gone"); };
  EXPECT_TRUE(tree_.InstallFlush(memtable, {NewTable("a", 1)}).IsIOError());
  EXPECT_EQ(Level0().size(), 0u);
  EXPECT_EQ(tree_.views().Current()->immutables.size(), 1u);
  tree_.ReturnUnflushed(*memtable);
  EXPECT_TRUE(tree_.HasMemtableToFlush());
  VersionEdit edit(2);
  edit.levels[1].added = {NewTable("x", 1)};
  EXPECT_TRUE(tree_.InstallMerge(edit).IsIOError());
  EXPECT_EQ(tree_.views().Current()->version->table_count(), 0u);
}

// Fails if a flush that could not be installed is installed later by another one's success: its
// tables are given up by then, and their memory goes to somebody else.
TEST_F(TreeTest, AFailedInstallIsNotCarriedOutByTheNext) {
  const auto older = PutAndTake("a");
  const auto newer = PutAndTake("b");
  store_.before_put = [] { return Status::IOError("gone"); };
  EXPECT_FALSE(tree_.InstallFlush(older, {NewTable("a", 1)}).ok());
  store_.before_put = nullptr;
  // The thread that failed has not come to ReturnUnflushed() yet.
  ASSERT_OK(tree_.InstallFlush(newer, {NewTable("b", 2)}));
  EXPECT_EQ(Level0().size(), 0u) << "the older memtable's flush has failed";
  tree_.ReturnUnflushed(*older);
  EXPECT_EQ(tree_.TakeForFlush(), older);
  ASSERT_OK(tree_.InstallFlush(older, {NewTable("a", 1)}));
  EXPECT_EQ(Level0().size(), 2u);
}

// Fails if a flush that waited for an older one is kept when both could not be installed: if its
// tables are what cannot be installed, the older one fails for ever.
TEST_F(TreeTest, AFailedInstallDropsWhatWaitedForIt) {
  const auto older = PutAndTake("a");
  const auto newer = PutAndTake("b");
  const uint64_t freed_before = memory_->queued_free_bytes(0);
  ASSERT_OK(tree_.InstallFlush(newer, {NewTable("b", 2)}));
  store_.before_put = [] { return Status::IOError("a memory node with the newer one's table"); };
  EXPECT_TRUE(tree_.InstallFlush(older, {NewTable("a", 1)}).IsIOError());
  EXPECT_GT(memory_->queued_free_bytes(0), freed_before);
  store_.before_put = nullptr;
  tree_.ReturnUnflushed(*older);
  EXPECT_EQ(tree_.TakeForFlush(), older);
  EXPECT_EQ(tree_.TakeForFlush(), newer);
  ASSERT_OK(tree_.InstallFlush(older, {NewTable("a", 1)}));
  ASSERT_OK(tree_.InstallFlush(newer, {NewTable("b", 2)}));
  EXPECT_EQ(Level0().size(), 2u);
  EXPECT_EQ(tree_.Memtables().immutable, 0u);
}

// Fails if a table's memory is given back while a reader holds it, or never; or if that of a table
// that only changes its level is.
TEST_F(TreeTest, GivesMemoryBackWhenTheLastReaderIsGone) {
  TableRef table = NewTable("a", 1);
  const RemoteSpan image = table->meta().image;
  ASSERT_OK(tree_.InstallFlush(PutAndTake("a"), {table}));
  {
    VersionEdit down(2);
    down.levels[0].removed = {table->number()};
    down.levels[1].added = {table};
    ASSERT_OK(tree_.InstallMerge(down));
  }
  auto reader = tree_.views().Current();
  VersionEdit gone(2);
  gone.levels[1].removed = {table->number()};
  table.reset();
  ASSERT_OK(tree_.InstallMerge(gone));
  tree_.views().Reclaim();
  EXPECT_EQ(memory_->queued_free_bytes(0), 0u) << "a reader holds the version";
  EXPECT_TRUE(store_.live_spans.empty());
  reader.reset();
  tree_.views().Reclaim();
  EXPECT_EQ(memory_->queued_free_bytes(0), AllocatedSpan(image).bytes);
}

// Fails if a table that was picked before another reader took its place comes back with the old one
// when it moves, or if its memory goes although it only moves.
TEST_F(TreeTest, AMovedTableKeepsTheReaderThatItHasNow) {
  TableRef picked = NewTable("a", 1);
  ASSERT_OK(tree_.InstallFlush(PutAndTake("a"), {picked}));
  VersionEdit down(2);
  down.levels[0].removed = {picked->number()};
  down.levels[1].added = {picked};
  const auto present =
      std::make_shared<const Table>(std::make_unique<FakeTableReader>(picked->meta()), *picked);
  ASSERT_TRUE(tree_.TryReplaceReaders([&] {
    return std::unordered_map<uint64_t, TableRef>{{picked->number(), present}};
  }));
  ASSERT_OK(tree_.InstallMerge(down));
  EXPECT_EQ(tree_.views().Current()->version->levels()[1].AllTables(),
            std::vector<TableRef>{present});
  EXPECT_EQ(store_.live_spans, std::vector<RemoteSpan>{AllocatedSpan(present->meta().image)});
  picked.reset();
  down.levels[1].added.clear();
  tree_.views().Reclaim();
  EXPECT_EQ(memory_->queued_free_bytes(0), 0u);
}

// Fails if who keeps the house waits for a memory node that hangs, which what is installed waits
// for.
TEST_F(TreeTest, ReadersAreNotReplacedWhileSomethingIsInstalled) {
  const TableRef table = NewTable("a", 1);
  ASSERT_OK(tree_.InstallFlush(PutAndTake("a"), {table}));
  const auto present =
      std::make_shared<const Table>(std::make_unique<FakeTableReader>(table->meta()), *table);
  const auto choose = [&] {
    return std::unordered_map<uint64_t, TableRef>{{table->number(), present}};
  };
  const auto replace = [&] { return tree_.TryReplaceReaders(choose); };
  bool replaced = true;
  store_.before_put = [&] {
    std::thread house([&] { replaced = replace(); });
    house.join();
    return Status::OK();
  };
  ASSERT_OK(tree_.PutManifest());
  EXPECT_FALSE(replaced);
  EXPECT_TRUE(replace());
}

// Fails if the manifest's sequence number or table number could be given out again after a crash.
TEST_F(TreeTest, ManifestCoversAllNumbers) {
  const auto memtable = PutAndTake("a");
  const TableRef table = NewTable("a", 1);
  ASSERT_OK(tree_.InstallFlush(memtable, {table}));
  Manifest manifest;
  std::vector<Level> levels;
  const auto open = [&table](const TableMeta&, TableRef* opened) {
    *opened = table;
    return Status::OK();
  };
  ASSERT_OK(ManifestCodec::Decode(store_.manifest, open, &manifest, &levels));
  EXPECT_GE(manifest.last_sequence, 1u);
  EXPECT_GT(manifest.next_table_number, table->number());
}

// Far more switches than there are memtable epochs, under writers. Fails if a write gets into a
// memtable that does not own its sequence number, or is lost when the epochs wrap around.
TEST_F(TreeTest, NoWriteIsLostThroughManySwitches) {
  constexpr int kWriters = 3;
  constexpr int kWritesEach = 4000;
  constexpr int kSwitchesLeast = 600;
  std::atomic<int> running{kWriters};
  std::atomic<int> switches{0};
  std::atomic<uint64_t> written{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&] {
      // However the threads are scheduled, memtables are switched while writes go on.
      for (int i = 0; i < kWritesEach || switches < kSwitchesLeast; ++i) {
        Put("k");
        ++written;
      }
      --running;
    });
  }
  SequenceNumber next = 1;
  const auto drain = [&] {
    while (const auto memtable = tree_.TakeForFlush()) {
      const auto entries = memtable->NewIterator();
      std::vector<SequenceNumber> found;
      for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
        found.push_back(TrailerSequence(ExtractTrailer(entries->key())));
      }
      std::sort(found.begin(), found.end());
      for (const SequenceNumber sequence : found) ASSERT_EQ(sequence, next++);
      ASSERT_EQ(next, memtable->cut());
      ASSERT_OK(tree_.InstallFlush(memtable, {}));
    }
  };
  while (running > 0) {
    if (SwitchAny() == Tree::SwitchResult::kSwitched) ++switches;
    drain();
  }
  for (std::thread& writer : writers) writer.join();
  (void)SwitchAny();
  drain();
  EXPECT_EQ(next, written + 1);
  EXPECT_GE(switches, kSwitchesLeast);
}

}  // namespace
}  // namespace dlsm
