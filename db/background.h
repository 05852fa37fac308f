// Everything that happens without a caller: flushes, merges, frees, heartbeats; and the decision
// when writers must wait for it.
//
//   memtable full ──Switch──> flush threads ──> level 0 ──policy──> merge threads ──> levels below
//
// Flushes have threads of their own, so they never wait behind merges. A job that fails is tried
// again after a pause; what it left behind has been dropped by then.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/level_traffic.h"
#include "db/merge_job.h"
#include "db/merge_load_monitor.h"
#include "db/merge_policy.h"
#include "db/snapshot.h"
#include "db/stall_gate.h"
#include "db/table_store.h"
#include "db/tree.h"
#include "port/mutex.h"

namespace dlsm {

// Thread-safe.
class Background {
 public:
  struct Config {
    int flush_threads = 2;
    int merge_threads = 2;
    ComponentConstraint constraint = ComponentConstraint::kLocal;
    size_t level0_merge_trigger = 4;  // kLocal.
    size_t level0_stop_trigger = 24;  // kLocal.
    size_t components_max = 0;        // kGlobal; 0: twice the expected number.
    bool slow_down_writes = false;
    size_t memtable_bytes = 0;
    size_t memtables_max = 0;  // The active one included.
    MergeJobConfig merge;
    MergeSchedulerOptions schedule;  // Of merges that run here.
    std::chrono::milliseconds heartbeat_interval{1000};
    std::chrono::nanoseconds timeout{};
  };
  // All outlive this, which starts threads at once.
  Background(const Config& config, Tree* tree, const TableStore* store,
             std::unique_ptr<MergePolicy> policy, SnapshotList* snapshots, StallGate* gate,
             RpcClient* rpc, Statistics* statistics);
  ~Background() { Stop(); }

  // The active memtable is full, or something else has changed that may make work due.
  void Wake() LOCKS_EXCLUDED(mutex_);
  // A writer has filled the active memtable.
  void MemtableIsFull();

  // Flushes what is in memtables now; returns when done, or with the error that keeps it from that.
  Status Flush(bool wait) LOCKS_EXCLUDED(mutex_);
  // Returns when nothing runs and nothing is due.
  Status WaitIdle() LOCKS_EXCLUDED(mutex_);
  // Merges [*begin, *end] down, level by level.
  Status CompactRange(const Slice* begin, const Slice* end) LOCKS_EXCLUDED(mutex_);

  // What CountComponents() is measured against: where merges keep up it stays below `expected`;
  // writers stop at `max` under ComponentConstraint::kGlobal.
  struct ComponentLimits {
    size_t expected = 0;
    size_t max = 0;
  };
  ComponentLimits LimitsOf(const Version& version) const LOCKS_EXCLUDED(mutex_);
  // As in MergePolicy.
  uint64_t PendingBytes(const Version& version) const LOCKS_EXCLUDED(mutex_);
  void LimitLevel0Merges(size_t tables) LOCKS_EXCLUDED(mutex_);

  // Ends all threads; work under way is finished, or cancelled where it can be. Idempotent.
  void Stop() LOCKS_EXCLUDED(mutex_);

  // How merges here are scheduled, from now on.
  MergeScheduler& scheduler() { return scheduler_; }
  const MergeLoadMonitor& merge_load() const { return merge_load_; }
  const LevelTraffic& traffic() const { return traffic_; }

  // The last error of each kind of work; OK once it has succeeded again.
  Status last_error() const LOCKS_EXCLUDED(mutex_);

 private:
  // How often a kind of work has failed in a row.
  struct Failures {
    int count = 0;
    Status last;
    std::chrono::steady_clock::time_point retry_at;
  };

  void FlushLoop() LOCKS_EXCLUDED(mutex_);
  Status FlushOne(const std::shared_ptr<Memtable>& memtable);
  void MergeLoop() LOCKS_EXCLUDED(mutex_);
  Status Merge(const MergePick& pick);
  // Pairs with the end of Install(), which lets picks go on if guards are added.
  VersionEdit BeginInstall(const MergePick& pick, const std::vector<TableRef>& outputs)
      LOCKS_EXCLUDED(mutex_);
  Status Install(const MergePick& pick, MergeOutcome outcome);
  void HouseLoop() LOCKS_EXCLUDED(mutex_);
  Status Heartbeat();
  void KeepHouse() LOCKS_EXCLUDED(mutex_);
  void LookForWornGuards() LOCKS_EXCLUDED(mutex_);

  std::optional<MergePick> PickLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkBusyLocked(const MergePick& pick) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnmarkBusyLocked(const MergePick& pick) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IdleLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgiveLocked(Failures* failures) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status StuckLocked(const Failures& failures) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteOutcome(Failures Background::*failures, const Status& status) LOCKS_EXCLUDED(mutex_);
  void UpdateGate() LOCKS_EXCLUDED(gate_mutex_, mutex_);
  // `components_share`: what is used up of the limit on components or level 0, as the gate judges
  // them; 0 where no merge is due. `switched`: a memtable has just become full.
  void UpdatePace(double components_share, bool switched) EXCLUSIVE_LOCKS_REQUIRED(gate_mutex_);
  size_t ManualLevels(const Slice* begin, const Slice* end) LOCKS_EXCLUDED(mutex_);
  Status CompactLevel(size_t level, const Slice* begin, const Slice* end) LOCKS_EXCLUDED(mutex_);

  const Config config_;
  Tree* const tree_;
  const TableStore* const store_;
  SnapshotList* const snapshots_;
  StallGate* const gate_;
  RpcClient* const rpc_;
  Statistics* const statistics_;
  const std::function<uint64_t()> new_table_number_;
  LevelTraffic traffic_;
  std::atomic<bool> stopping_{false};
  MergeScheduler scheduler_;
  MergeLoadMonitor merge_load_;

  // One judgement of the gate at a time. Taken before mutex_ and before Tree's.
  port::Mutex gate_mutex_ ACQUIRED_BEFORE(mutex_);
  SustainedRate written_ GUARDED_BY(gate_mutex_);

  // Protects what follows; never held across a call to a memory node. Taken before Tree's.
  mutable port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  std::unique_ptr<MergePolicy> policy_ GUARDED_BY(mutex_);
  TablesInMerge busy_ GUARDED_BY(mutex_);
  int flushes_running_ GUARDED_BY(mutex_) = 0;
  std::vector<const MergePick*> merges_ GUARDED_BY(mutex_);  // Under way.
  // A version with more guards is about to come. Nothing is picked meanwhile, because what is
  // picked by the old one would not be cut at them.
  bool adding_guards_ GUARDED_BY(mutex_) = false;
  Failures flush_failures_ GUARDED_BY(mutex_);
  Failures merge_failures_ GUARDED_BY(mutex_);
  Failures house_failures_ GUARDED_BY(mutex_);
  // When merges were last looked for on account of reads.
  uint64_t reads_seen_ GUARDED_BY(mutex_) = 0;
  uint64_t newest_memtable_seen_ GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point quiet_since_ GUARDED_BY(mutex_);

  port::Mutex stop_mutex_;
  std::vector<std::thread> threads_ GUARDED_BY(stop_mutex_);
};

}  // namespace dlsm
