// From level to level, by itself or because a caller asks for it.
#include <algorithm>
#include <utility>

#include "db/background/background.h"
#include "db/merge/room_watch.h"
#include "db/tree/table_runs.h"
#include "port/sync_point.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

bool AddsGuards(const VersionEdit& edit) {
  return std::any_of(edit.levels.begin(), edit.levels.end(),
                     [](const auto& level) { return !level.guards.empty(); });
}

// Those that overlap its range.
std::vector<TableRef> InRangeOf(const ManualScope& scope, const InternalKeyComparator& comparator,
                                std::vector<TableRef> tables) {
  std::erase_if(tables, [&](const TableRef& table) {
    return !Overlaps(comparator, *table, scope.begin, scope.end);
  });
  return tables;
}

}  // namespace

MergeChooser::Situation Background::SituationLocked(const Version& version) const {
  return {
      .version = version, .busy = busy_, .room = RoomLeftLocked(version), .snapshots = *snapshots_};
}

std::optional<MergePick> Background::PickLocked(bool for_reads) {
  if (adding_guards_) return std::nullopt;
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  std::optional<MergePick> pick = chooser_.Next(SituationLocked(*version), for_reads);
  if (pick.has_value() || !tree_->TombstonesPress()) return pick;
  return PickForTombstonesLocked(*version);
}

// An error stays with the heartbeat, which meets it too.
void Background::GiveBackInputs() {
  tree_->views().Reclaim();
  store_->memory()->SendFrees().PermitUncheckedError();
}

// Only a merge for which there is room: others make room first.
std::optional<MergePick> Background::PickForTombstonesLocked(const Version& version) {
  if (version.tombstones() == nullptr) return std::nullopt;
  chooser_.policy().SetSnapshots(snapshots_->List());
  std::optional<MergePick> pick = chooser_.policy().PickForTombstones(version, busy_);
  const auto is_hidden = [&](const TableRef& table) {
    return version.tombstones()->HideAll(table->meta(), snapshots_->List());
  };
  const bool fits = pick.has_value() && (std::ranges::all_of(pick->inputs, is_hidden) ||
                                         RoomLeftLocked(version).Fits(2 * pick->input_bytes()));
  return fits ? std::move(pick) : std::nullopt;
}

// Nobody waits for it, so it gets out of the way of everybody who does; and it leaves as much room
// as it takes.
std::optional<MergePick> Background::PickWhileIdleLocked() {
  const bool wanted = quiet_ && manual_compactions_ == 0 && flushes_running_ == 0 &&
                      !idle_failures_.rests() && !writers_wait_();
  if (!wanted || adding_guards_) return std::nullopt;
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  std::optional<MergePick> pick = chooser_.policy().PickWhileIdle(*version, busy_);
  if (!pick.has_value()) {
    pick = PickForTombstonesLocked(*version);
    if (pick.has_value()) pick->cause = MergeCause::kIdle;
    return pick;
  }
  const bool fits = pick.has_value() &&
                    (pick->trivial_move || RoomLeftLocked(*version).Fits(2 * pick->input_bytes()));
  return fits ? std::move(pick) : std::nullopt;
}

// Not while somebody waits until nothing is due.
bool Background::ReadMergesArePacedLocked() const {
  return waiting_for_idle_ == 0 && !MergesAreFree();
}

bool Background::MergesHere() const {
  return config_.merge.place == CompactionPlace::kComputeNode ||
         !MergeRequest::CanShip(store_->table_options());
}

RoomLeft Background::RoomLeftLocked(const Version& version) const {
  RoomLeft room = room_.Left(version.bytes());
  room.full = store_->memory()->full();
  for (const MergePick* merge : begun_since_report_) {
    if (!merge->trivial_move) room.for_merges -= std::min(room.for_merges, merge->input_bytes());
  }
  // What is told may be in crumbs, or be wanted by others, too: smaller merges may fit then.
  const WorkFailures& failures = failures_[kMerge];
  if (failures.any() && failures.last().IsBusy()) {
    room.for_merges >>= std::min(failures.count(), 63);
  }
  return room;
}

// No other merge has any of its tables.
void Background::MarkBusyLocked(MergePick* picked) {
  SeparateColumns(*tree_->views().Current()->version, picked);
  const MergePick& pick = *picked;
  for (const TableRef& table : pick.inputs) busy_.insert(table->number());
  for (const TableRef& table : pick.target_inputs) busy_.insert(table->number());
  merges_.push_back(&pick);
  begun_since_report_.push_back(&pick);
}

void Background::UnmarkBusyLocked(const MergePick& pick) {
  for (const TableRef& table : pick.inputs) busy_.erase(table->number());
  for (const TableRef& table : pick.target_inputs) busy_.erase(table->number());
  std::erase(merges_, &pick);
  std::erase(begun_since_report_, &pick);
  ChangedLocked();
}

bool Background::merges_fail() const {
  port::MutexLock lock(mutex_);
  return std::any_of(failures_.begin() + kMerge, failures_.end(),
                     [](const WorkFailures& failures) { return failures.any(); });
}

void Background::BeginMerge(Runner runner, Clock::time_point* due, std::optional<MergePick>* pick) {
  port::MutexLock lock(mutex_);
  if (EndedFor(runner)) return;
  if (runner == Runner::kThread && LeftToCallers()) {
    merge_hint_.store(true, std::memory_order_release);
    return;
  }
  if (failures_[kMerge].rests()) {
    *due = std::min(*due, failures_[kMerge].retry_at());
    merge_hint_.store(true, std::memory_order_release);
    return;
  }
  // As of one moment: if the rest ended between two looks, nobody would look again.
  const auto now = Clock::now();
  const bool paced = ReadMergesArePacedLocked();
  bool rest = paced && read_merges_->Next(now) > now;
  *pick = PickLocked(/*for_reads=*/!rest);
  if (pick->has_value()) {
    MarkBusyLocked(&**pick);
    if ((*pick)->cause != MergeCause::kReads || read_merges_->Begin(now, paced)) {
      return;
    }
    // Another shard has begun one meanwhile.
    UnmarkBusyLocked(**pick);
    pick->reset();
    rest = true;
  }
  if (rest) {
    *due = std::min(*due, read_merges_->Next(now));
    merge_hint_.store(true, std::memory_order_release);
  }
}

void Background::BeginIdleMerge(Clock::time_point* due, std::optional<MergePick>* pick) {
  port::MutexLock lock(mutex_);
  if (EndedFor(Runner::kThread)) return;
  if (LeftToCallers()) {
    idle_merge_hint_.store(true, std::memory_order_release);
    return;
  }
  *pick = PickWhileIdleLocked();
  if (pick->has_value()) {
    MarkBusyLocked(&**pick);
  } else if (idle_failures_.rests()) {
    idle_merge_hint_.store(true, std::memory_order_release);
    *due = std::min(*due, idle_failures_.retry_at());
  }
}

// A caller that finds no room to flush makes some itself; one that compacts does not.
bool Background::LeftToCallers() const {
  if (!callers_->own_code() || !callers_->merging()) return false;
  if (gate_->closed(StallReason::kLevel0) || gate_->closed(StallReason::kComponents)) return false;
  return callers_->flushing() || !gate_->closed(StallReason::kMemory);
}

bool Background::MergeOne(Clock::time_point* due) {
  if (!merge_hint_.exchange(false, std::memory_order_acq_rel)) return false;
  return MergeNext(Runner::kThread, due);
}

bool Background::MergeNext(Runner runner, Clock::time_point* due) {
  std::optional<MergePick> pick;
  BeginMerge(runner, due, &pick);
  if (!pick.has_value()) return false;
  SetHint(&merge_hint_, WorkSignal::Work::kMerges);
  const auto began = Clock::now();
  const Status status = Merge(*pick, runner);
  if (pick->cause == MergeCause::kReads) read_merges_->NoteEnded(began, Clock::now());
  NoteOutcome(kMerge, status);
  UpdateGate();
  EndMerge(&pick);
  return true;
}

void Background::EndMerge(std::optional<MergePick>* pick) {
  bool gives_back;
  {
    port::MutexLock lock(mutex_);
    UnmarkBusyLocked(**pick);
    gives_back =
        RoomLeftLocked(*tree_->views().Current()->version).IsPressing((*pick)->input_bytes());
    pick->reset();  // A caller that waits for the merge may look for its inputs' memory.
  }
  if (gives_back) GiveBackInputs();
}

bool Background::MergeWhileIdle(Clock::time_point* due) {
  if (!idle_merge_hint_.exchange(false, std::memory_order_acq_rel)) return false;
  std::optional<MergePick> pick;
  BeginIdleMerge(due, &pick);
  if (!pick.has_value()) return false;
  SetHint(&idle_merge_hint_, WorkSignal::Work::kMerges);
  const Status status = Merge(*pick, Runner::kThread);
  if (status.IsIOFenced()) fence_->Raise(status);
  UpdateGate();
  port::MutexLock lock(mutex_);
  idle_failures_.Note(status);
  UnmarkBusyLocked(*pick);
  pick.reset();
  return true;
}

Status Background::Merge(const MergePick& pick, Runner runner) {
  CompactionEvent event;
  return listeners_.any() ? MergeAndTell(pick, runner) : MergeInto(pick, runner, &event);
}

Status Background::MergeAndTell(const MergePick& pick, Runner runner) {
  const auto start = Clock::now();
  CompactionEvent event;
  event.level = pick.level;
  event.target_level = pick.target_level;
  event.inputs = pick.inputs.size() + pick.target_inputs.size();
  event.input_bytes = pick.input_bytes();
  event.trivial_move = pick.trivial_move;
  listeners_.Tell(&EventListener::OnCompactionBegin, event, number_);
  event.status = MergeInto(pick, runner, &event);
  event.micros = port::MicrosecondsSince(start);
  listeners_.Tell(&EventListener::OnCompactionCompleted, event, number_);
  return event.status;
}

Status Background::MergeInto(const MergePick& pick, Runner runner, CompactionEvent* event) {
  const auto start = Clock::now();
  const Statistics::Mine counters = statistics_->OfThisThread();
  MergeOutcome outcome;
  const bool by_caller = runner == Runner::kCaller;
  if (!pick.trivial_move) {
    const MergeContext context{.config = config_.merge,
                               .store = *store_,
                               .nodes = nodes_,
                               .new_table_number = new_table_number_,
                               .cancelled = by_caller ? stopping_ : threads_end_,
                               .scheduler = scheduler_,
                               .in_this_thread = by_caller && callers_->own_code()};
    // In this order: a snapshot that is not listed sees all of these tombstones.
    const std::shared_ptr<const RangeTombstones> tombstones =
        tree_->views().Current()->version->tombstones();
    port::SyncPoint("merge: tombstones read");
    DLSM_RETURN_IF_ERROR(RunMerge(context, pick, tombstones.get(), snapshots_->List(), &outcome));
  }
  const MergeStatistics& statistics = outcome.statistics;
  const uint64_t tables = outcome.tables.size();
  event->outputs = pick.trivial_move ? pick.inputs.size() : tables;
  event->bytes_read = statistics.bytes_read;
  event->bytes_written = statistics.bytes_written;
  event->place = outcome.remote ? EventPlace::kMemoryNode : EventPlace::kComputeNode;
  DLSM_RETURN_IF_ERROR(Install(pick, outcome.tables));
  outcome.tables.clear();  // The next merge may take them; who waits for it looks for their memory.
  gate_->NoteProgress();
  if (pick.trivial_move) {
    counters.Add(Ticker::kTrivialMoves, pick.inputs.size());
    return Status::OK();
  }
  counters.Add(outcome.remote ? Ticker::kMergesRemote : Ticker::kMergesLocal);
  traffic_.AddWritten(pick.target_level, statistics.bytes_written);
  if (pick.in_place()) {
    traffic_.AddInPlace(pick.target_level, statistics.bytes_written);
  } else {
    traffic_.AddTakenAlong(pick.target_level, BytesOf(pick.target_inputs));
  }
  counters.Add(Ticker::kMergeBytesRead, statistics.bytes_read);
  counters.Add(Ticker::kMergeBytesWritten, statistics.bytes_written);
  const uint64_t micros = port::MicrosecondsSince(start);
  counters.Add(Ticker::kMergeMicros, micros);
  if (!outcome.remote) {
    counters.Add(Ticker::kLocalMergeBytesRead, statistics.bytes_read);
    counters.Add(Ticker::kLocalMergeBytesWritten, statistics.bytes_written);
    counters.Add(Ticker::kLocalMergeMicros, micros);
  }
  if (pick.in_place()) counters.Add(Ticker::kMergesInPlace);
  if (pick.cause == MergeCause::kReads) {
    counters.Add(pick.in_place() ? Ticker::kMergesForReads : Ticker::kMergesDownForReads);
  }
  if (pick.cause == MergeCause::kIdle) counters.Add(Ticker::kMergesWhileIdle);
  if (pick.is_step) counters.Add(Ticker::kMergesBySteps);
  counters.Add(Ticker::kMergeCalls, outcome.calls);
  counters.Add(Ticker::kMergeAllocations, statistics.allocations);
  counters.Add(Ticker::kMergeTables, tables);
  if (statistics.hidden > 0) counters.Add(Ticker::kMergeHidden, statistics.hidden);
  if (statistics.filtered > 0) counters.Add(Ticker::kMergeFiltered, statistics.filtered);
  return Status::OK();
}

VersionEdit Background::BeginInstall(const MergePick& pick, const std::vector<TableRef>& outputs) {
  port::MutexLock lock(mutex_);
  while (adding_guards_) changed_.Wait();
  std::vector<const MergePick*> others = merges_;
  std::erase(others, &pick);
  VersionEdit edit = EditOf(pick, *tree_->views().Current()->version, outputs, others);
  NoteRenamedLocked(pick, outputs);
  adding_guards_ = AddsGuards(edit);
  return edit;
}

void Background::NoteRenamedLocked(const MergePick& pick, const std::vector<TableRef>& outputs) {
  const std::vector<TableRef>& all = pick.in_place() ? pick.inputs : pick.target_inputs;
  if (all.empty()) return;
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  for (ManualLevel* const manual : manual_levels_) {
    ManualScope& scope = manual->scope;
    if (manual->level != pick.target_level) continue;
    const std::vector<TableRef> replaced = InRangeOf(scope, version->comparator(), all);
    if (!scope.HasAny(replaced, /*further_down=*/true)) continue;
    // Where it is to stay, to be merged with what comes from above is as good as in place.
    const bool merged =
        !pick.cuts_only &&
        (pick.in_place() ? manual->own == &pick : !GoesFurtherLocked(*version, *manual));
    if (!pick.in_place() && !merged && ++manual->followed > kFollowedMax) continue;
    const bool done = merged || !scope.HasAny(replaced);
    for (const TableRef& table : outputs)
      (done ? scope.merged : scope.also).insert(table->number());
  }
}

bool Background::GoesFurtherLocked(const Version& version, const ManualLevel& manual) const {
  return chooser_.policy().ManualLevels(version, manual.scope.begin, manual.scope.end) >
         manual.level + 1;
}

Status Background::Install(const MergePick& pick, const std::vector<TableRef>& outputs) {
  TablesOnTrial made(&outputs);
  const VersionEdit edit = BeginInstall(pick, outputs);
  const Status installed = tree_->InstallMerge(edit);
  {
    port::MutexLock lock(mutex_);
    if (AddsGuards(edit)) adding_guards_ = false;
    ChangedLocked();
  }
  if (installed.ok()) made.NoteInstalled();
  return installed;
}

Status Background::CompactRange(Clock::time_point began, const Slice* begin, const Slice* end) {
  DLSM_RETURN_IF_ERROR(AwaitFlush(began));
  {
    port::MutexLock lock(mutex_);
    ForgiveLocked(&failures_[kMerge]);
  }
  NoteManualCompactions(1);
  const Status status = CompactLevels(begin, end);
  NoteManualCompactions(-1);
  return status;
}

Status Background::CompactLevels(const Slice* begin, const Slice* end) {
  for (size_t level = 0; level < ManualLevels(begin, end); ++level) {
    DLSM_RETURN_IF_ERROR(CompactLevel(level, begin, end));
  }
  return Status::OK();
}

void Background::NoteManualCompactions(int change) {
  port::MutexLock lock(mutex_);
  manual_compactions_ += change;
  ChangedLocked();
}

// Grows while the levels before are merged, where other merges put tables deeper than any were; one
// that is about to is waited for.
size_t Background::ManualLevels(const Slice* begin, const Slice* end) {
  port::MutexLock lock(mutex_);
  while (true) {
    const std::shared_ptr<const Version> version = tree_->views().Current()->version;
    const size_t deepest = DeepestLevel(*version, nullptr, nullptr);
    const auto goes_deeper = [deepest](const MergePick* merge) {
      return merge->target_level > deepest;
    };
    if (std::none_of(merges_.begin(), merges_.end(), goes_deeper)) {
      return chooser_.policy().ManualLevels(*version, begin, end);
    }
    changed_.WaitUntil(Clock::now() + kHouseInterval);
  }
}

Status Background::CompactLevel(size_t level, const Slice* begin, const Slice* end) {
  ManualLevel manual;
  {
    port::MutexLock lock(mutex_);
    manual.level = level;
    manual.scope = ManualScope{begin, end, /*made_before=*/new_table_number_()};
    manual.scope.rewrites = config_.merge.filter != nullptr;
    manual_levels_.push_back(&manual);
  }
  const Status status = MergeLevel(level, &manual);
  port::MutexLock lock(mutex_);
  std::erase(manual_levels_, &manual);
  return status;
}

// A step that has to wait may wait for a merge that is due: a guard in the next level has to go
// down before more can come to it. Where the threads leave merges to callers, the caller does that
// one.
Status Background::MergeLevel(size_t level, ManualLevel* manual) {
  while (true) {
    std::optional<MergePick> pick;
    bool whole = true;
    bool done = false;
    DLSM_RETURN_IF_ERROR(BeginStep(level, manual, &pick, &done, &whole));
    if (done) return Status::OK();
    if (!pick.has_value()) {
      auto look_again = Clock::now() + kHouseInterval;
      if (!callers_->own_code() || MergeNext(Runner::kCaller, &look_again)) continue;
      port::MutexLock lock(mutex_);
      changed_.WaitUntil(look_again);
      continue;
    }
    const Status status = Merge(*pick, Runner::kCaller);
    NoteOutcome(kMerge, status);
    UpdateGate();
    {
      port::MutexLock lock(mutex_);
      manual->own = nullptr;
    }
    EndMerge(&pick);
    DLSM_RETURN_IF_ERROR(status);
    // What was flushed meanwhile is not part of this request.
    if (level == 0 && whole) return Status::OK();
  }
}

Status Background::BeginStep(size_t level, ManualLevel* manual, std::optional<MergePick>* pick,
                             bool* done, bool* whole) {
  port::MutexLock lock(mutex_);
  // It may wait for a merge that is due, and that cannot be done.
  DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kMerge], Clock::time_point()));
  port::SyncPoint("compaction: picked");
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  if (!adding_guards_) {
    *pick = chooser_.NextManual(SituationLocked(*version), level, manual->scope, done, whole);
  }
  if (*done) return Status::OK();
  if (pick->has_value()) {
    if (manual->scope.rewrites) (*pick)->trivial_move = false;
    MarkBusyLocked(&**pick);
    manual->own = &**pick;
  } else if (!callers_->own_code()) {
    changed_.WaitUntil(Clock::now() + kHouseInterval);
  }
  return Status::OK();
}

}  // namespace dlsm
