// Which memtable owns which sequence numbers, in all shards of a handle.
//
// There is one sequencer, so a batch over several shards takes its numbers with one fetch-add, and
// one epoch: a switch of any shard's memtable adds one to it. Each shard says for each epoch which
// of its memtables owns the numbers:
//
//   epoch      4     5     6     7
//   shard 0    m1    m1    m2    m2      m2 took the place of m1 with epoch 6
//   shard 1    m8    m9    m9    m10
//
//   1. A switch first says for the coming epoch what is the same in the other shards and what is
//      new in its own, then has the sequencer hand the epoch out. So whoever learns the epoch finds
//      a memtable in each shard, and in each shard a later number never belongs to an older one.
//   2. Epochs have eight bits. Before one is used again, everything that was numbered under its
//      former use has been inserted: else a write that was held back between taking its numbers and
//      looking for its memtable would find a memtable that is too new. With one shard a flush has
//      waited for that long before; with several a memtable may stay for more than 256 epochs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "db/memtable/sequencer.h"
#include "port/mutex.h"

namespace dlsm {

class Memtable;

// One shard's memtables by epoch.
class EpochMap {
 public:
  // Of a write that is under way: the memtable lives at least as long as the write.
  Memtable& Of(MemtableEpoch epoch) const {
    // Pairs with the store in MemtableEpochs::Switch, which comes before the epoch is handed out.
    return *memtables_[static_cast<size_t>(epoch)].load(std::memory_order_acquire);
  }

 private:
  friend class MemtableEpochs;
  std::array<std::atomic<Memtable*>, 256> memtables_{};
};

// Thread-safe.
class MemtableEpochs {
 public:
  // `last` is the last sequence number in use.
  explicit MemtableEpochs(SequenceNumber last) : sequencer_(last) {}

  Sequencer& sequencer() { return sequencer_; }

  // A shard whose only memtable is `first`. Before the first write to it; and after the last.
  void Join(EpochMap* shard, Memtable* first) LOCKS_EXCLUDED(mutex_);
  void Leave(EpochMap* shard) LOCKS_EXCLUDED(mutex_);

  // From now on `fresh`, which readers find already, takes what is written to the shard. Returns
  // the first sequence number that no longer belongs to the memtable before. `fresh` gets only
  // numbers above `skipped_to`, which is above all that were given; 0: none is skipped.
  SequenceNumber Switch(EpochMap* shard, Memtable* fresh, SequenceNumber skipped_to = 0)
      LOCKS_EXCLUDED(mutex_);

 private:
  Sequencer sequencer_;

  // One switch at a time. Waits for writes under way, which never block; taken after a Tree's.
  port::Mutex mutex_;
  MemtableEpoch current_ GUARDED_BY(mutex_){};
  std::vector<EpochMap*> shards_ GUARDED_BY(mutex_);
  // By epoch: the first number after its last use; 0: not used yet.
  std::array<SequenceNumber, 256> ended_ GUARDED_BY(mutex_){};
};

}  // namespace dlsm
