#include "db/background/background.h"

#include <algorithm>
#include <utility>

#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {

Background::Background(const Config& config, const Parts& parts,
                       std::unique_ptr<MergePolicy> policy)
    : config_(config),
      tree_(parts.tree),
      store_(parts.store),
      manifests_(parts.manifests),
      gate_(parts.gate),
      nodes_(parts.nodes),
      snapshots_(parts.snapshots),
      scheduler_(parts.scheduler),
      signal_(parts.signal),
      read_merges_(parts.read_merges),
      fence_(parts.fence),
      callers_(parts.callers),
      statistics_(parts.statistics),
      writers_wait_(parts.writers_wait),
      home_lost_(parts.home_lost),
      listeners_(parts.listeners != nullptr ? *parts.listeners : EventListeners()),
      number_(parts.number),
      new_table_number_([tree = parts.tree] { return tree->NewTableNumber(); }),
      traffic_(parts.tree->views().Current()->version->levels().size()),
      gate_keeper_(config.gate,
                   {.tree = parts.tree,
                    .store = parts.store,
                    .gate = parts.gate,
                    .budget = parts.budget,
                    .expected_components =
                        [this](const Version& version) { return ExpectedComponents(version); }}),
      chooser_(std::move(policy)),
      failures_(kHouse + parts.nodes.size()),
      trimmed_(parts.nodes.size()),
      room_of_nodes_(parts.nodes.size()) {}

void Background::EndThreads() {
  threads_end_.store(true, std::memory_order_release);
  Wake();
}

// A merge at a memory node may take hours, others' budget and queue there included: it is answered
// once the next heartbeat has told that nobody waits for it.
void Background::Stop() {
  gate_->Shut();
  stopping_.store(true, std::memory_order_release);
  threads_end_.store(true, std::memory_order_release);
  for (const MergeNode& node : nodes_) node.numbers->GiveUp();
  Wake();
}

void Background::ChangedLocked() {
  changed_.SignalAll();
  flush_hint_.store(true, std::memory_order_release);
  idle_merge_hint_.store(true, std::memory_order_release);
  SetHint(&merge_hint_, WorkSignal::Work::kAny);
}

void Background::SetHint(std::atomic<bool>* hint, WorkSignal::Work work) {
  hint->store(true, std::memory_order_release);
  signal_->Notify(work);
}

void Background::Wake() {
  port::MutexLock lock(mutex_);
  ChangedLocked();
}

void Background::UpdateGate() {
  if (gate_keeper_.Judge()) Wake();
  if (listeners_.any()) TellStall();
}

void Background::TellStall() {
  const StallCondition now = gate_->closed()                       ? StallCondition::kStopped
                             : gate_->closed(StallReason::kSlowed) ? StallCondition::kDelayed
                                                                   : StallCondition::kNormal;
  const StallCondition before = told_stall_.exchange(now);
  if (before == now) return;
  StallEvent event;
  event.previous = before;
  event.current = now;
  listeners_.Tell(&EventListener::OnStallConditionsChanged, event, number_);
}

// Wakes once, whether a memtable is switched or not.
void Background::LookAtMemtable() {
  gate_keeper_.Judge();
  Wake();
  if (listeners_.any()) TellStall();
}

void Background::CoverWrite(uint64_t bytes, uint64_t entries) {
  if (config_.read_only) return;
  constexpr uint64_t kEntryBytes = 64;  // Of a memtable, beside key and value.
  const Tree::MemtableUsage usage = tree_->Usage();
  store_->memory()->Cover(usage.active_bytes + usage.immutable_bytes + bytes +
                          entries * kEntryBytes);
  if (store_->memory()->full()) UpdateGate();
}

void Background::LookIfWritersWait() {
  if (gate_->closed(StallReason::kMemtables)) LookAtMemtable();
}

size_t Background::ExpectedComponents(const Version& version) const {
  port::MutexLock lock(mutex_);
  return chooser_.policy().ExpectedComponents(version);
}

uint64_t Background::PendingBytes(const Version& version) const {
  port::MutexLock lock(mutex_);
  return chooser_.policy().PendingBytes(version);
}

void Background::LimitLevel0Merges(size_t tables) {
  port::MutexLock lock(mutex_);
  chooser_.policy().LimitLevel0Merges(tables);
  ChangedLocked();
}

void Background::NoteOutcome(size_t kind, const Status& status) {
  // Work that was cancelled because the database closes has not failed.
  if (status.IsAborted() && threads_end_.load(std::memory_order_acquire)) return;
  if (status.IsIOFenced()) fence_->Raise(status);
  bool first_failure;
  {
    port::MutexLock lock(mutex_);
    first_failure = failures_[kind].Note(status);
    ChangedLocked();
  }
  if (!status.ok() && listeners_.any()) {
    BackgroundErrorEvent event;
    event.kind = kind == kFlush   ? BackgroundWorkKind::kFlush
                 : kind == kMerge ? BackgroundWorkKind::kCompaction
                                  : BackgroundWorkKind::kMemoryNode;
    event.status = status;
    listeners_.Tell(&EventListener::OnBackgroundError, event, number_);
  }
  if (!status.ok()) {
    gate_->NoteError(status);
    if (kind < kHouse) statistics_->Add(Ticker::kRetries);
    if (first_failure && !fence_->raised())
      Log().Error("background work failed, to be tried again: {}", status.ToString());
  }
}

Status Background::last_error() const {
  port::MutexLock lock(mutex_);
  for (const WorkFailures& failures : failures_) {
    if (!failures.last().ok()) return failures.last();
  }
  return Status::OK();
}

// -------- Waiting

bool Background::IdleLocked() {
  return flushes_running_ == 0 && merges_.empty() && tree_->Memtables().immutable == 0 &&
         !PickLocked(/*for_reads=*/true).has_value() && !PickWhileIdleLocked().has_value();
}

bool Background::AwaitedLocked(const WorkFailures& failures) const {
  const bool of_flushes = &failures == &failures_[kFlush];
  return waiting_for_idle_ > 0 || (of_flushes && waiting_for_flush_ > 0);
}

// The failures of before are forgiven: their cause may be gone, so who waits is told only of those
// that happen while he does. Where others wait already, one more tells all of them: else nobody
// would be told where more come to wait faster than there are failures enough. Of a handle that is
// of no more use the cause stays: it is told at once, and the next try is not for them.
void Background::ForgiveLocked(WorkFailures* failures) {
  if (!Usable().ok()) return;
  if (AwaitedLocked(*failures)) {
    failures->LetOneMoreTell();
    return;
  }
  failures->Forgive();
  ChangedLocked();
}

// Failures for another reason than want of room are forgiven once more: their cause may have gone
// while others were waited for. But where each takes a time-out, those that there have been since
// are not waited for again: one more try tells.
void Background::ForgiveAgainLocked(Clock::time_point began, WorkFailures* failures) {
  const bool since_began = failures->since() >= began;
  if (since_began && failures->last().IsBusy()) return;
  if (since_began && failures->last().IsTimedOut()) {
    failures->LetOneMoreTell();
    failures->RetryNow();
    ChangedLocked();
    return;
  }
  ForgiveLocked(failures);
}

// A handle that was taken over, or whose session has ended, says so even where it has nothing to
// flush.
Status Background::Usable() const { return fence_->raised() ? fence_->status() : gate_->refusal(); }

Status Background::StuckLocked(const WorkFailures& failures, Clock::time_point began) const {
  if (stopping_.load(std::memory_order_acquire)) {
    return Status::Aborted("the database is being closed");
  }
  DLSM_RETURN_IF_ERROR(Usable());
  if (failures.tolerable()) return Status::OK();
  // Others may make room: merges, or followers that move on or whose leases end.
  const bool may_pass = failures.last().IsBusy() &&
                        Clock::now() - std::max(failures.since(), began) < config_.patience;
  return may_pass ? Status::OK() : failures.last();
}

Status Background::WaitIdleLocked(Clock::time_point began) {
  LookAtWritesLocked();
  quiet_watch_.BeginAwaited();
  while (true) {
    LookAtWritesLocked();
    if (IdleLocked()) return Status::OK();
    DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kFlush], began));
    DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kMerge], began));
    // A merge may have become due without an event, by what was read meanwhile.
    idle_merge_hint_.store(true, std::memory_order_release);
    SetHint(&merge_hint_, WorkSignal::Work::kMerges);
    changed_.WaitUntil(Clock::now() + kHouseInterval);
  }
}

void Background::BeginIdle() {
  port::MutexLock lock(mutex_);
  ForgiveLocked(&failures_[kFlush]);
  ForgiveLocked(&failures_[kMerge]);
}

Status Background::AwaitIdle(Clock::time_point began) {
  {
    port::MutexLock lock(mutex_);
    ForgiveAgainLocked(began, &failures_[kFlush]);
    ForgiveAgainLocked(began, &failures_[kMerge]);
    ++waiting_for_idle_;
    const Status waited = WaitIdleLocked(began);
    --waiting_for_idle_;
    DLSM_RETURN_IF_ERROR(waited);
  }
  tree_->views().Reclaim();
  DLSM_RETURN_IF_ERROR(manifests_->EndDoubt());
  return store_->memory()->SendFrees();
}

}  // namespace dlsm
