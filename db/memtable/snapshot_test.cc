#include "db/memtable/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace dlsm {
namespace {

using Sequences = std::vector<SequenceNumber>;

// Fails if a snapshot's number is not that of the last write before it.
TEST(SnapshotTest, IsTheLastWrite) {
  Sequencer sequencer(41);
  SnapshotList snapshots;
  EXPECT_EQ(snapshots.Take(&sequencer)->sequence(), 41u);
  { const Sequencer::Write write(sequencer, 3); }
  EXPECT_EQ(snapshots.Take(&sequencer)->sequence(), 44u);
}

// Fails if the list forgets a live snapshot, keeps a released one, or is not ascending and unique.
TEST(SnapshotTest, ListsLiveOnesOnceEach) {
  Sequencer sequencer(0);
  SnapshotList snapshots;
  const SnapshotImpl* first = snapshots.Take(&sequencer);
  const SnapshotImpl* same = snapshots.Take(&sequencer);
  { const Sequencer::Write write(sequencer, 1); }
  const SnapshotImpl* second = snapshots.Take(&sequencer);
  { const Sequencer::Write write(sequencer, 1); }
  const SnapshotImpl* third = snapshots.Take(&sequencer);
  EXPECT_EQ(snapshots.List(), (Sequences{0, 1, 2}));
  snapshots.Release(first);
  EXPECT_EQ(snapshots.List(), (Sequences{0, 1, 2}));
  snapshots.Release(second);
  EXPECT_EQ(snapshots.List(), (Sequences{0, 2}));
  snapshots.Release(same);
  snapshots.Release(third);
  EXPECT_EQ(snapshots.List(), Sequences{});
}

// Fails if a snapshot is handed out while a write that it covers is still inserting.
TEST(SnapshotTest, WaitsForWritesThatItCovers) {
  Sequencer sequencer(0);
  SnapshotList snapshots;
  std::atomic<bool> inserted{false};
  std::atomic<bool> writing{false};
  std::thread writer([&] {
    const Sequencer::Write write(sequencer, 1);
    writing = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    inserted = true;
  });
  while (!writing) std::this_thread::yield();
  const SnapshotImpl* snapshot = snapshots.Take(&sequencer);
  EXPECT_TRUE(inserted);
  EXPECT_EQ(snapshot->sequence(), 1u);
  writer.join();
}

// Who lists snapshots after a cut must see every snapshot below it. Fails if one turns up later:
// a flush would have dropped versions that it needs.
TEST(SnapshotTest, NoneBelowACutTurnsUpAfterIt) {
  Sequencer sequencer(0);
  SnapshotList snapshots;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) snapshots.Release(snapshots.Take(&sequencer));
    });
    threads.emplace_back([&] {
      while (!stop) const Sequencer::Write write(sequencer, 2);
    });
  }
  for (int round = 0; round < 1000; ++round) {
    const SequenceNumber cut = sequencer.Switch();
    const Sequences listed = snapshots.List();
    for (const SequenceNumber later : snapshots.List()) {
      if (later + 1 >= cut) continue;
      EXPECT_TRUE(std::find(listed.begin(), listed.end(), later) != listed.end()) << later;
    }
    EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end()));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dlsm
