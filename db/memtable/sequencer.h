// Who writes what number where, and who sees it. (doc/design.md, "Write path")
//
// One word holds the next sequence number and, above it, the epoch of the memtable that owns it:
//
//   63      56 55                                 0
//   | epoch   | next sequence number              |
//
//   1. A write announces a lower bound of its sequence in its thread's slot, then takes its numbers
//      with one fetch-add. The word it gets back also says which memtable owns them: whatever
//      happens meanwhile, a later number never belongs to an older memtable.
//   2. A switch adds one to the epoch: the numbers before belong to the old memtable, those after
//      to the new one, which is already in its place (the caller sees to that). Numbers in between
//      may be skipped, for entries that come in tables (Tree::SwitchForIngest).
//   3. A write clears its slot after its last insert. So a sequence number is *settled* when no
//      slot is at or below it: nothing at or below it is still to come.
//   4. A batch of several entries also shows its range in its slot while it is incomplete. A reader
//      that finds such an entry asks OpenBatchOf() afterwards. If the batch is open, it passes over
//      all of the batch; if not, it looks once more, because what it found may not have been the
//      last that the batch says of the key.
#pragma once

#include <atomic>
#include <cstdint>

#include "dLSM/status.h"
#include "port/cpu.h"
#include "table/internal_key.h"
#include "util/deadline.h"
#include "util/thread_number.h"

namespace dlsm {

enum class MemtableEpoch : uint8_t {};

// Thread-safe; no locks.
class Sequencer {
  struct Slot {
    std::atomic<SequenceNumber> lower_bound{0};  // 0: no write under way.
    std::atomic<SequenceNumber> batch_first{0};  // 0: no batch.
    std::atomic<SequenceNumber> batch_last{0};
  };

 public:
  // `last` is the last sequence number in use.
  explicit Sequencer(SequenceNumber last) : word_(last + 1) {}

  // A write under way. The thread must not block while it has one: flushes and snapshots wait for
  // it.
  class Write {
   public:
    Write(Sequencer& sequencer, uint32_t entries) : Write(sequencer, entries, entries > 1) {}
    // `batch`: readers see all of it or nothing.
    Write(Sequencer& sequencer, uint32_t entries, bool batch);
    ~Write();
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;

    SequenceNumber first() const { return first_; }
    MemtableEpoch epoch() const { return epoch_; }

   private:
    Slot& slot_;
    SequenceNumber first_;
    MemtableEpoch epoch_;
    const bool batch_;
  };

  struct Position {
    MemtableEpoch epoch;
    SequenceNumber next;
  };
  Position Now() const { return Split(word_.load(std::memory_order_seq_cst)); }

  // Ends the current memtable's range; returns the first sequence number that is not its own. From
  // there on so many numbers belong to no memtable: the next one begins behind them.
  SequenceNumber Switch(SequenceNumber skipped = 0);

  // Waits until everything at or below `sequence` has been inserted. Writers never block while
  // announced, so this takes as long as the slowest insert under way; of a batch, as all of its.
  void WaitSettled(SequenceNumber sequence);

  // If `sequence`, which the caller has found in a memtable, is of a batch that is incomplete: the
  // first number of that batch. Otherwise 0.
  SequenceNumber OpenBatchOf(SequenceNumber sequence);

 private:
  static constexpr int kEpochShift = 56;
  static Position Split(uint64_t word) {
    return Position{static_cast<MemtableEpoch>(word >> kEpochShift), word & kSequenceNumberMax};
  }

  alignas(port::kCacheLineBytes) std::atomic<uint64_t> word_;
  alignas(port::kCacheLineBytes) PerThread<Slot> slots_;
};

}  // namespace dlsm
