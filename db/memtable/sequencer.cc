#include "db/memtable/sequencer.h"

#include "port/scheduler.h"
#include "port/spin_wait.h"
#include "port/sync_point.h"

namespace dlsm {

Sequencer::Write::Write(Sequencer& sequencer, uint32_t entries, bool batch)
    : slot_(sequencer.slots_.Local()), batch_(batch) {
  // Sequentially consistent, as is the fetch-add after it: who has read a position that includes
  // our numbers also finds our announcement.
  slot_.lower_bound.store(sequencer.Now().next, std::memory_order_seq_cst);
  port::InterleavingPoint();
  const Position position = Split(sequencer.word_.fetch_add(entries, std::memory_order_seq_cst));
  first_ = position.next;
  epoch_ = position.epoch;
  port::InterleavingPoint();
  if (batch_) {
    slot_.batch_last.store(first_ + entries - 1, std::memory_order_release);
    slot_.batch_first.store(first_, std::memory_order_release);
  }
}

Sequencer::Write::~Write() {
  // Release: who sees the slot cleared sees every entry of this write.
  if (batch_) {
    port::SyncPoint("batch: inserted");
    slot_.batch_first.store(0, std::memory_order_release);
  }
  slot_.lower_bound.store(0, std::memory_order_release);
}

SequenceNumber Sequencer::Switch(SequenceNumber skipped) {
  const uint64_t step = (uint64_t{1} << kEpochShift) + skipped;
  return Split(word_.fetch_add(step, std::memory_order_seq_cst)).next;
}

// Single writes end within less than a microsecond, unless their thread was held up; a large batch
// may take seconds, for which nobody keeps a processor busy.
void Sequencer::WaitSettled(SequenceNumber sequence) {
  slots_.ForEach([sequence](Slot& slot) {
    for (port::SpinWait wait;; wait.Pause()) {
      // Pairs with the release in ~Write.
      const SequenceNumber lower_bound = slot.lower_bound.load(std::memory_order_seq_cst);
      if (lower_bound == 0 || lower_bound > sequence) return true;
    }
  });
}

SequenceNumber Sequencer::OpenBatchOf(SequenceNumber sequence) {
  SequenceNumber open = 0;
  slots_.ForEach([sequence, &open](Slot& slot) {
    const SequenceNumber first = slot.batch_first.load(std::memory_order_acquire);
    if (first == 0 || sequence < first) return true;
    const SequenceNumber last = slot.batch_last.load(std::memory_order_acquire);
    if (sequence > last) return true;
    // If `last` is a later batch's, then batch_first has changed: that slot's batch is complete.
    if (slot.batch_first.load(std::memory_order_acquire) != first) return true;
    open = first;
    return false;
  });
  return open;
}

}  // namespace dlsm
