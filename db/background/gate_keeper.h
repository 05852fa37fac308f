// Holds writers back: switches memtables, and says when writers must wait for work, and how fast
// they may go on.
//
//   memtables, version, room ──Judge──> gate (stall_gate.h): open or closed, and the writers' pace
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "dLSM/options.h"
#include "db/background/memtable_budget.h"
#include "db/background/stall_gate.h"
#include "db/background/write_pacer.h"
#include "db/tree/table_store.h"
#include "db/tree/tree.h"
#include "db/tree/version.h"
#include "port/clock.h"
#include "port/mutex.h"

namespace dlsm {

// Of one shard. Thread-safe.
class GateKeeper {
 public:
  using Clock = port::Clock;

  struct Config {
    ComponentConstraint constraint = ComponentConstraint::kLocal;
    size_t level0_merge_trigger = 4;   // kLocal.
    size_t level0_stop_trigger = 24;   // kLocal.
    size_t components_max = 0;         // kGlobal; 0: twice the expected number.
    bool stops_for_components = true;  // Else neither level 0 nor components hold writers back.
    bool slow_down_writes = false;
    // With as many memtables waiting, nobody's asking for a flush makes another one wait: as many
    // are flushed side by side, and what is written meanwhile shares the next flush.
    size_t flushes_at_once = 2;
  };
  // All outlive this.
  struct Parts {
    Tree* tree;
    const TableStore* store;
    StallGate* gate;
    const MemtableBudget* budget;
    // As in MergePolicy. Called under this one's lock.
    std::function<size_t(const Version&)> expected_components;
  };
  GateKeeper(const Config& config, const Parts& parts);

  // Switches the active memtable if that is due, then opens or closes the gate and sets its pace.
  // To be called after each change of memtables, version or room. Returns true if it switched a
  // memtable. The caller must then wake a thread that flushes.
  bool Judge() LOCKS_EXCLUDED(mutex_);
  // Whether the last judgement has closed the gate for want of room, or of a reserve. Waits for one
  // under way, which may not have seen the room that the caller has just made.
  bool lacks_room() const LOCKS_EXCLUDED(mutex_);
  // Whether it is to be done again though nothing has changed: there was no memory for the next
  // memtable.
  bool must_judge_again() const LOCKS_EXCLUDED(mutex_);

  struct AskedSwitch {
    bool switched = false;
    bool is_empty = false;  // Nothing in the memtable that was asked for needs to be flushed.
    // Since when there has been no memory to switch it; none: that does not stand in the way.
    std::optional<Clock::time_point> no_memory_since;
  };
  // Switches the active memtable, full or not, because somebody wants the one of this number to be
  // flushed. If it cannot be switched now, Judge() does it as soon as it can.
  AskedSwitch SwitchForFlush(uint64_t number) LOCKS_EXCLUDED(mutex_);

  // Switches the active memtable for tables that are to be installed with it, as
  // Tree::SwitchForIngest() says.
  Status SwitchForIngest(SequenceNumber number, const std::vector<TableRef>& tables,
                         uint64_t* memtable) LOCKS_EXCLUDED(mutex_);

  // Pauses of the writers do not count for the pace that they are given. To be called now and then.
  void LookForPauses() LOCKS_EXCLUDED(mutex_);
  // Nobody has written since the last look. It is not looked for pauses while a handle sleeps, so
  // whoever wakes it says this before anything is written.
  void EndPause() LOCKS_EXCLUDED(mutex_);

  // Whether a judgement since the last call has had reserves grow (PlacedMemory). They are to be
  // filled at once then: writers may soon wait for that.
  bool TakeReserveIsDue() { return reserve_is_due_.exchange(false, std::memory_order_relaxed); }

 private:
  // What the budget says, and the reserves: memtables have no more than these can take. One that
  // would have more is full, and must be flushed before. *beyond: they have, so nobody may put
  // more.
  MemtableBudget::Ruling Rule(bool* beyond) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The parts of Rule() for a reserve that does not cover all memtables that there may be: when to
  // judge again, `grows` said that the reserve is to grow; and when a memtable is full.
  static void LookAgainFor(const RemoteMemory::Covered& covered, const Tree::MemtableUsage& usage,
                           bool grows, MemtableBudget::Ruling* ruling);
  void SwitchForReserve(const RemoteMemory::Covered& covered, const Tree::MemtableUsage& usage,
                        MemtableBudget::Ruling* ruling) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Tree::SwitchResult Switch(size_t bytes, const MemtableBudget::Ruling& ruling)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Full or not, because somebody has asked for its flush.
  Tree::SwitchResult SwitchAsAsked(MemtableBudget::Ruling ruling) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Switches the active memtable if it is full or, full or not, somebody has asked for its flush.
  Tree::SwitchResult SwitchIfDue(const MemtableBudget::Ruling& ruling)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There was no memory for it; returns since when that has been so.
  Clock::time_point NoteNoMemory() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // *beyond: as Rule() says, after the switch.
  void SwitchAndJudgeMemtables(bool* switched, bool* beyond) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns what is used up of the limit on level 0 or components; 0 where no merge is due.
  double JudgeComponents(const Version& version) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `components_share`: what JudgeComponents() has returned.
  void UpdatePace(double components_share) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  Tree* const tree_;
  const TableStore* const store_;
  StallGate* const gate_;
  const MemtableBudget* const budget_;
  const std::function<size_t(const Version&)> expected_components_;

  std::atomic<bool> reserve_is_due_{false};  // Relaxed: a hint, reserves are looked after anyway.

  // One judgement at a time, and every switch is under this. Taken before Tree's, and before what
  // expected_components_ takes.
  mutable port::Mutex mutex_;
  SustainedRate written_ GUARDED_BY(mutex_);  // If writers are to be slowed down.
  // The active memtable when it was last looked at.
  uint64_t seen_number_ GUARDED_BY(mutex_) = 0;
  size_t seen_bytes_ GUARDED_BY(mutex_) = 0;
  // Somebody has asked for the memtables of lower numbers to be flushed. The active one may have to
  // wait until it can be switched.
  uint64_t flush_before_ GUARDED_BY(mutex_) = 0;
  // Since when there has been no memory to switch one that is full, or that somebody has asked to
  // be flushed; none: that is not so.
  std::optional<Clock::time_point> no_memory_since_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
