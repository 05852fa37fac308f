// Everything that happens to a shard without a caller: flushes, merges, frees, heartbeats; and the
// decision when writers must wait for it.
//
//   memtable full ──Switch──> flush threads ──> level 0 ──policy──> merge threads ──> levels below
//
// The threads are those of BackgroundWorkers, which come to all shards of a handle; where the work
// calls the application's code, a caller's own thread does what it waits for (caller_work.h). A job
// that fails, perhaps because its tables lack memory, is tried again after a pause; what it left
// behind has been dropped by then. Nothing is done any more once the fence is raised.
//
// background.cc keeps the account of what is due and who waits; the work is in
// background_flushes.cc, background_merges.cc and background_house.cc. What holds writers back is a
// class of its own (gate_keeper.h).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/background/caller_work.h"
#include "db/background/event_listeners.h"
#include "db/background/fence.h"
#include "db/background/gate_keeper.h"
#include "db/background/memtable_budget.h"
#include "db/background/quiet_watch.h"
#include "db/background/read_merge_pacer.h"
#include "db/background/stall_gate.h"
#include "db/background/work_failures.h"
#include "db/background/work_signal.h"
#include "db/memtable/snapshot.h"
#include "db/merge/merge_chooser.h"
#include "db/merge/merge_job.h"
#include "db/merge/merge_policy.h"
#include "db/merge/room_watch.h"
#include "db/nodes/merge_load_monitor.h"
#include "db/nodes/placed_manifest_store.h"
#include "db/tree/level_traffic.h"
#include "db/tree/table_store.h"
#include "db/tree/tree.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Thread-safe.
class Background {
 public:
  using Clock = port::Clock;

  struct Config {
    GateKeeper::Config gate;
    MergeJobConfig merge;
    uint64_t publications_from = 0;  // See HeartbeatRequest.
    std::chrono::milliseconds heartbeat_interval{1000};
    std::chrono::milliseconds sleeping_heartbeat_interval{1000};  // While nobody uses the handle.
    std::chrono::nanoseconds timeout{};
    // How long who waits for work does so while there is no room for it.
    std::chrono::milliseconds patience{0};
    bool read_only = false;  // Nothing but heartbeats is done.
  };
  // Those of this shard, and those that it shares with the others of its handle. All outlive this.
  struct Parts {
    Tree* tree;
    const TableStore* store;
    PlacedManifestStore* manifests;
    StallGate* gate;
    std::vector<MergeNode> nodes;  // The home first.
    SnapshotList* snapshots;
    MergeScheduler* scheduler;
    MemtableBudget* budget;
    WorkSignal* signal;
    ReadMergePacer* read_merges;
    Fence* fence;
    CallerWork* callers;
    Statistics* statistics;
    std::function<bool()> writers_wait;  // Of any shard.
    // Called when the session at the home has ended for good. May be empty.
    std::function<void(const Status&)> home_lost;
    const EventListeners* listeners = nullptr;  // May be null.
    size_t number = 0;                          // Of the shard, for them.
  };
  Background(const Config& config, const Parts& parts, std::unique_ptr<MergePolicy> policy);
  ~Background() { Stop(); }

  // Something has changed that may make work due.
  void Wake() LOCKS_EXCLUDED(mutex_);
  // Switches the active memtable if the budget says so, and judges anew whether writers must wait.
  // To be called when Tree::LookIsDue().
  void LookAtMemtable();
  // The same if writers wait for memtables: another shard's flush may have made room for them.
  void LookIfWritersWait();
  // Before a write that is too large for a look after it: the reserves are to cover it, too. If
  // they cannot, the gate is closed. Takes calls while they are smaller than they may be.
  void CoverWrite(uint64_t bytes, uint64_t entries);
  // An operation has woken the handle, and is yet to begin.
  void NoteWoken() { gate_keeper_.EndPause(); }
  // Whether a look since the last call needs KeepHouse() at once, of all memory nodes.
  bool TakeHouseIsDue() { return gate_keeper_.TakeReserveIsDue(); }

  // For the threads that do the work. They do one piece of it, and say whether there was one;
  // nothing is due before *due where that is moved up. What callers do themselves is not theirs.
  bool FlushOne(Clock::time_point* due) LOCKS_EXCLUDED(mutex_);
  bool MergeOne(Clock::time_point* due) LOCKS_EXCLUDED(mutex_);
  // One that nobody has asked for; once no shard has another.
  bool MergeWhileIdle(Clock::time_point* due) LOCKS_EXCLUDED(mutex_);
  // Whether the last piece has failed, or the memory node does not answer.
  bool flushes_fail() const LOCKS_EXCLUDED(mutex_);
  bool merges_fail() const LOCKS_EXCLUDED(mutex_);
  // For each of its memory nodes, by its number: every kHouseInterval, and as often as
  // heartbeat_interval() says.
  static constexpr auto kHouseInterval = std::chrono::milliseconds(100);
  void KeepHouse(size_t node) LOCKS_EXCLUDED(mutex_);
  // The part of it that fills the reserve, and lets writers in that wait for that.
  void NoticeRoom(size_t node) LOCKS_EXCLUDED(mutex_);
  // `asleep`: nothing but its answer can make work due.
  void Heartbeat(size_t node, bool asleep) LOCKS_EXCLUDED(mutex_);
  // In its place, while all rest: the session was renewed with others' (sleeping_sessions.h).
  void NoteRenewed(size_t node, const RenewedSession& renewed) LOCKS_EXCLUDED(mutex_);
  SessionId session(size_t node) const { return nodes_[node].session; }
  // Whether the last KeepHouse() has left nothing to look for, unless somebody has read or written
  // since: then it need not be called again before somebody does, or the next heartbeat is due.
  bool Rests(size_t node) const LOCKS_EXCLUDED(mutex_);
  // Whether the last heartbeat to it was answered.
  bool answers(size_t node) const LOCKS_EXCLUDED(mutex_);
  std::chrono::milliseconds heartbeat_interval() const { return config_.heartbeat_interval; }
  std::chrono::milliseconds sleeping_heartbeat_interval() const {
    return config_.sleeping_heartbeat_interval;
  }

  // Has what is in memtables now flushed, and does not wait for it. An error of a handle that
  // flushes nothing any more; else it will be done, if need be once other memtables have been
  // flushed, or there is memory for the next one.
  Status RequestFlush() LOCKS_EXCLUDED(mutex_);

  // What is waited for, in two steps, for who waits for several shards: at `began` he begins with
  // all of them, and then he waits for one after the other. Who has waited since then for room, or
  // for memory, has done so for each of them. Of a single shard the second step is enough.
  void BeginFlush() LOCKS_EXCLUDED(mutex_);
  // Returns when what is in memtables now is flushed, or with the error that keeps it from that.
  Status AwaitFlush(Clock::time_point began) LOCKS_EXCLUDED(mutex_);
  void BeginIdle() LOCKS_EXCLUDED(mutex_);
  // As long as it lives, tables of an ingest are being written: what a session has is not given up.
  class IngestUnderWay {
   public:
    explicit IngestUnderWay(Background* background) : background_(background) {
      background_->ingests_running_.fetch_add(1, std::memory_order_acq_rel);
    }
    ~IngestUnderWay() { background_->ingests_running_.fetch_sub(1, std::memory_order_acq_rel); }
    IngestUnderWay(const IngestUnderWay&) = delete;
    IngestUnderWay& operator=(const IngestUnderWay&) = delete;

   private:
    Background* const background_;
  };

  // Has tables enter level 0 above all that was written before, and below all that is written from
  // now on: see Tree::SwitchForIngest(). `bytes`: of the tables. On an error, as
  // AwaitFlush() has it, they are given up, and nothing has changed.
  Status Ingest(SequenceNumber number, std::vector<TableRef> tables, uint64_t bytes)
      LOCKS_EXCLUDED(mutex_);
  // Returns when nothing runs, nothing is due, and what nobody has asked for is done, too, unless
  // somebody writes.
  Status AwaitIdle(Clock::time_point began) LOCKS_EXCLUDED(mutex_);
  // Flushes, then merges [*begin, *end] down, level by level. Its first step is BeginFlush().
  Status CompactRange(Clock::time_point began, const Slice* begin, const Slice* end)
      LOCKS_EXCLUDED(mutex_);

  // As in MergePolicy.
  size_t ExpectedComponents(const Version& version) const LOCKS_EXCLUDED(mutex_);
  uint64_t PendingBytes(const Version& version) const LOCKS_EXCLUDED(mutex_);
  void LimitLevel0Merges(size_t tables) LOCKS_EXCLUDED(mutex_);

  // The threads begin nothing any more, and merges of theirs are cancelled where they can be.
  // Callers still do what they wait for. Idempotent, like the next one.
  void EndThreads() LOCKS_EXCLUDED(mutex_);
  // Nothing begins any more; work under way is finished, or cancelled where it can be.
  void Stop() LOCKS_EXCLUDED(mutex_);

  const LevelTraffic& traffic() const { return traffic_; }

  // The last error of each kind of work; OK once it has succeeded again.
  Status last_error() const LOCKS_EXCLUDED(mutex_);

 private:
  // Kinds of work, as their failures are kept: these, and from kHouse on one for each memory node.
  static constexpr size_t kFlush = 0;
  static constexpr size_t kMerge = 1;
  static constexpr size_t kHouse = 2;
  static constexpr size_t kHome = 0;  // Of nodes_; where the manifest is.

  // A level on its way down because somebody asked for it.
  struct ManualLevel {
    size_t level = 0;
    ManualScope scope;
    const MergePick* own = nullptr;  // Its merge under way.
    int followed = 0;  // How many merges from above that have written anew what it is about.
  };
  // It follows no more of them: else it would not end as long as somebody writes.
  static constexpr int kFollowedMax = 8;

  // What is due, who waits, and what they are told: background.cc.

  // Who does a piece of work: one of the threads, or a caller that waits for it.
  enum class Runner { kThread, kCaller };
  // Nothing may begin any more.
  bool EndedFor(Runner runner) const {
    return Ended() || (runner == Runner::kThread && threads_end_.load(std::memory_order_acquire));
  }
  bool Ended() const { return stopping_.load(std::memory_order_acquire) || fence_->raised(); }
  // Wakes all who wait here, and the threads: anything may be due now.
  void ChangedLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A thread has found some work; there may be more of it.
  void SetHint(std::atomic<bool>* hint, WorkSignal::Work work);
  // After each change of memtables, version or room. Whoever does that, the memtable that is
  // switched then is due.
  void UpdateGate() LOCKS_EXCLUDED(mutex_);
  // What listeners are told about the gate, where that has changed.
  void TellStall() LOCKS_EXCLUDED(mutex_);
  // A piece of work has ended. Sets when its kind is tried again, if it has failed.
  void NoteOutcome(size_t kind, const Status& status) LOCKS_EXCLUDED(mutex_);
  // What the memory node's sessions heard last; `asleep`: as in Heartbeat().
  void NoteHeartbeat(size_t node, const Status& status, bool asleep) LOCKS_EXCLUDED(mutex_);
  // Whether nothing runs and nothing is due, not even a merge that nobody has asked for.
  bool IdleLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status WaitIdleLocked(Clock::time_point began) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether somebody waits who is told of these failures.
  bool AwaitedLocked(const WorkFailures& failures) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Somebody begins to wait: only failures from now on count for him.
  void ForgiveLocked(WorkFailures* failures) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same when it is this shard's turn, of several that somebody waits for since `began`.
  void ForgiveAgainLocked(Clock::time_point began, WorkFailures* failures)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK unless this handle has lost the database or its session.
  Status Usable() const;
  // What somebody who waits since `began` is told; OK: he waits on.
  Status StuckLocked(const WorkFailures& failures, Clock::time_point began) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // background_flushes.cc

  // Flushes the oldest memtable that nobody is flushing, of a number up to `number_max`.
  bool FlushNext(Runner runner, uint64_t number_max, Clock::time_point* due) LOCKS_EXCLUDED(mutex_);
  // A caller waits for the memtable of this number, and for those before. Does a piece of what that
  // takes, a merge if flushes find no room; false if others are at it, or it is not yet time.
  bool FlushForCaller(uint64_t number, Clock::time_point* due) LOCKS_EXCLUDED(mutex_);
  Status FlushInto(const std::shared_ptr<Memtable>& memtable, FlushEvent* event);
  // The same, of which listeners are told.
  Status FlushAndTell(const std::shared_ptr<Memtable>& memtable);
  // `began`: when who waits began to.
  Status FlushActive(bool wait, Clock::time_point began) LOCKS_EXCLUDED(mutex_);
  // The same of the memtable of this number and those before it.
  Status FlushUpTo(uint64_t target, bool wait, Clock::time_point began) LOCKS_EXCLUDED(mutex_);

  // background_merges.cc

  // `for_reads`: one that only reads have asked for will do.
  std::optional<MergePick> PickLocked(bool for_reads) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<MergePick> PickForTombstonesLocked(const Version& version)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<MergePick> PickWhileIdleLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether merges that reads have asked for rest.
  bool ReadMergesArePacedLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MergeChooser::Situation SituationLocked(const Version& version) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether all merges run on the compute node.
  bool MergesHere() const;
  RoomLeft RoomLeftLocked(const Version& version) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The merge has been run, be it in vain.
  void EndMerge(std::optional<MergePick>* pick) LOCKS_EXCLUDED(mutex_);
  // What a merge has read goes back now, because the next one may need its room.
  void GiveBackInputs();
  // No other merge picks these tables, from the first call to the second.
  void MarkBusyLocked(MergePick* pick) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnmarkBusyLocked(const MergePick& pick) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the threads leave merges to callers just now. Not what writers wait for.
  bool LeftToCallers() const;
  bool MergeNext(Runner runner, Clock::time_point* due) LOCKS_EXCLUDED(mutex_);
  // Sets *pick, which then is under way, if there is something to be merged and it is time. If not,
  // it sets *due to the time of the next look, if that is known.
  void BeginMerge(Runner runner, Clock::time_point* due, std::optional<MergePick>* pick)
      LOCKS_EXCLUDED(mutex_);
  void BeginIdleMerge(Clock::time_point* due, std::optional<MergePick>* pick)
      LOCKS_EXCLUDED(mutex_);
  // Runs the merge, installs what it has made, and counts it.
  Status Merge(const MergePick& pick, Runner runner);
  // Merge(), of which listeners are told.
  Status MergeAndTell(const MergePick& pick, Runner runner);
  Status MergeInto(const MergePick& pick, Runner runner, CompactionEvent* event);
  Status Install(const MergePick& pick, const std::vector<TableRef>& outputs);
  // Its first part. Where the edit adds guards nothing is picked until Install() has ended.
  VersionEdit BeginInstall(const MergePick& pick, const std::vector<TableRef>& outputs)
      LOCKS_EXCLUDED(mutex_);
  // A merge in place gives tables new numbers, and so does one that takes tables of its target
  // along: those of a manual compaction stay in its scope.
  void NoteRenamedLocked(const MergePick& pick, const std::vector<TableRef>& outputs)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether what the compaction merges in its level goes further down after that.
  bool GoesFurtherLocked(const Version& version, const ManualLevel& manual) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteManualCompactions(int change) LOCKS_EXCLUDED(mutex_);
  size_t ManualLevels(const Slice* begin, const Slice* end) LOCKS_EXCLUDED(mutex_);
  Status CompactLevels(const Slice* begin, const Slice* end) LOCKS_EXCLUDED(mutex_);
  Status CompactLevel(size_t level, const Slice* begin, const Slice* end) LOCKS_EXCLUDED(mutex_);
  Status MergeLevel(size_t level, ManualLevel* manual) LOCKS_EXCLUDED(mutex_);
  // Sets *pick, which then is under way, if a step can begin now, and *whole as
  // MergeChooser::NextManual() does; *done if none is left. Else waits for a change, unless the
  // caller has to bring it about.
  Status BeginStep(size_t level, ManualLevel* manual, std::optional<MergePick>* pick, bool* done,
                   bool* whole) LOCKS_EXCLUDED(mutex_);

  // The house threads' work: background_house.cc.

  Status SendHeartbeat(size_t node);
  // What the memory node has reported.
  void NoteRoomLocked(size_t node, const RoomLeft& left) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What needs no memory node.
  void LookAfterTree() LOCKS_EXCLUDED(mutex_);
  // Sends frees to the memory node, and notices when it has room again.
  void LookAfterMemory(size_t node) LOCKS_EXCLUDED(mutex_);
  // Where nobody has written for a while, gives back what is kept for writes.
  void TrimIfIdle(size_t node) LOCKS_EXCLUDED(mutex_);
  // There is room again: what failed for want of it is tried sooner.
  void TryAgainWithRoom() LOCKS_EXCLUDED(mutex_);
  // What is due changes without an event: by reads, and by nobody writing any more.
  void LookAtTraffic() LOCKS_EXCLUDED(mutex_);
  uint64_t Reads() const;  // Of all shards.
  void LookAtWritesLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether merges take no processor from others, in particular not from readers of the same
  // machine.
  bool MergesAreFree() const;

  const Config config_;
  Tree* const tree_;
  const TableStore* const store_;
  PlacedManifestStore* const manifests_;
  StallGate* const gate_;
  const std::vector<MergeNode> nodes_;
  SnapshotList* const snapshots_;
  MergeScheduler* const scheduler_;
  WorkSignal* const signal_;
  ReadMergePacer* const read_merges_;
  Fence* const fence_;
  CallerWork* const callers_;
  Statistics* const statistics_;
  const std::function<bool()> writers_wait_;
  const std::function<void(const Status&)> home_lost_;
  const EventListeners listeners_;
  const size_t number_;
  std::atomic<StallCondition> told_stall_{StallCondition::kNormal};
  const std::function<uint64_t()> new_table_number_;
  LevelTraffic traffic_;
  GateKeeper gate_keeper_;      // Its lock is taken before mutex_.
  uint64_t metadata_hand_ = 0;  // See ShedMetadata(). Of the home's house thread.
  std::atomic<bool> stopping_{false};
  std::atomic<bool> threads_end_{false};
  std::atomic<int> ingests_running_{0};
  // Whether there may be such work: something has changed since a thread looked for it in vain. Set
  // after the change and before the signal.
  std::atomic<bool> flush_hint_{true};
  std::atomic<bool> merge_hint_{true};
  std::atomic<bool> idle_merge_hint_{true};

  // Protects what follows; never held across a call to a memory node. Taken before Tree's.
  mutable port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  MergeChooser chooser_ GUARDED_BY(mutex_);
  TablesInMerge busy_ GUARDED_BY(mutex_);
  int flushes_running_ GUARDED_BY(mutex_) = 0;
  std::vector<const MergePick*> merges_ GUARDED_BY(mutex_);  // Under way.
  // A version with more guards is about to come. Nothing is picked meanwhile, because what is
  // picked by the old one would not be cut at them.
  bool adding_guards_ GUARDED_BY(mutex_) = false;
  std::vector<WorkFailures> failures_ GUARDED_BY(mutex_);  // By kind of work.
  // When merges were last looked for on account of reads.
  uint64_t reads_seen_ GUARDED_BY(mutex_) = 0;
  Clock::time_point reads_seen_at_ GUARDED_BY(mutex_);  // When they had last become more.
  int waiting_for_flush_ GUARDED_BY(mutex_) = 0;
  int waiting_for_idle_ GUARDED_BY(mutex_) = 0;
  int manual_compactions_ GUARDED_BY(mutex_) = 0;
  std::vector<ManualLevel*> manual_levels_ GUARDED_BY(mutex_);
  IdleWorkFailures idle_failures_ GUARDED_BY(mutex_);  // Of merges that nobody has asked for.
  QuietWatch quiet_watch_ GUARDED_BY(mutex_);
  bool quiet_ GUARDED_BY(mutex_) = false;
  std::vector<bool> trimmed_ GUARDED_BY(mutex_);  // By node: since it is idle.
  std::vector<std::optional<RoomLeft>> room_of_nodes_ GUARDED_BY(mutex_);  // As each reported.
  RoomWatch room_ GUARDED_BY(mutex_);                                      // Of all of them.
  // Merges of which the last report cannot know yet.
  std::vector<const MergePick*> begun_since_report_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
