#include "db/background.h"

#include <algorithm>
#include <utility>

#include "db/components.h"
#include "db/flush_job.h"
#include "db/shed_metadata.h"
#include "db/table_runs.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Clock = Background::Clock;

// Who waits for work that fails is told after this many failures in a row.
constexpr int kFailuresTolerated = 3;

uint64_t MicrosSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

bool AddsGuards(const VersionEdit& edit) {
  return std::any_of(edit.levels.begin(), edit.levels.end(),
                     [](const auto& level) { return !level.guards.empty(); });
}

double Share(size_t used, size_t limit) {
  return static_cast<double>(used) / static_cast<double>(std::max<size_t>(limit, 1));
}

// As if `expected` were half of the limit. Where no more is used no merge is due, so nothing is to
// be waited for, however near the limit is.
double ShareBeyond(size_t expected, size_t used, size_t limit) {
  if (used <= expected || limit <= expected) return 0;
  return 0.5 + 0.5 * Share(used - expected, limit - expected);
}

std::chrono::milliseconds PauseAfter(int failures) {
  constexpr int kFirstMs = 50;
  constexpr int kMostMs = 2000;
  return std::chrono::milliseconds(std::min(kFirstMs << std::min(failures - 1, 6), kMostMs));
}

}  // namespace

Background::Background(const Config& config, const Parts& parts,
                       std::unique_ptr<MergePolicy> policy)
    : config_(config),
      tree_(parts.tree),
      store_(parts.store),
      gate_(parts.gate),
      nodes_(parts.nodes),
      snapshots_(parts.snapshots),
      scheduler_(parts.scheduler),
      budget_(parts.budget),
      signal_(parts.signal),
      fence_(parts.fence),
      statistics_(parts.statistics),
      new_table_number_([tree = parts.tree] { return tree->NewTableNumber(); }),
      traffic_(parts.tree->views().Current()->version->levels().size()),
      policy_(std::move(policy)),
      failures_(kHouse + parts.nodes.size()),
      free_bytes_(parts.nodes.size()) {}

void Background::Stop() {
  gate_->Shut();
  stopping_.store(true, std::memory_order_release);
  Wake();
}

void Background::ChangedLocked() {
  changed_.SignalAll();
  flush_hint_.store(true, std::memory_order_release);
  SetHint(&merge_hint_);
}

void Background::SetHint(std::atomic<bool>* hint) {
  hint->store(true, std::memory_order_release);
  signal_->Notify();
}

void Background::Wake() {
  port::MutexLock lock(mutex_);
  ChangedLocked();
}

void Background::MemtableIsFull() {
  UpdateGate();
  Wake();
}

void Background::LookAtMemtables() {
  if (gate_->closed(StallReason::kMemtables)) MemtableIsFull();
}

// Judged under one lock, so that the last judgement is of the last state: a writer that found no
// room must not close the gate after the flush that made room has opened it.
void Background::UpdateGate() {
  port::MutexLock lock(gate_mutex_);
  const MemtableBudget::Ruling ruling = budget_->RulingFor(*tree_);
  const size_t active_bytes = tree_->Usage().active_bytes;
  const Tree::SwitchResult result = tree_->Switch(ruling.switch_at, ruling.immutables_max);
  const bool switched = result == Tree::SwitchResult::kSwitched;
  tree_->LookAgainAt(switched ? ruling.look_at_next : ruling.look_again_at);
  gate_->Set(StallReason::kMemtables,
             ruling.must_wait || result == Tree::SwitchResult::kTooManyMemtables);
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  double share;
  if (config_.constraint == ComponentConstraint::kLocal) {
    const size_t level0 = version->levels()[0].table_count();
    gate_->Set(StallReason::kLevel0, level0 >= config_.level0_stop_trigger);
    share = ShareBeyond(config_.level0_merge_trigger, level0, config_.level0_stop_trigger);
  } else {
    const size_t components = CountComponents(*version);
    const ComponentLimits limits = LimitsOf(*version);
    gate_->Set(StallReason::kComponents, components >= limits.max);
    share = ShareBeyond(limits.expected, components, limits.max);
  }
  gate_->Set(StallReason::kMemory, store_->memory()->full());
  if (store_->memory()->full()) gate_->NoteError(store_->memory()->full_reason());
  if (config_.slow_down_writes) UpdatePace(share, switched ? active_bytes : 0);
}

void Background::UpdatePace(double components_share, size_t switched_bytes) {
  const auto now = Clock::now();
  if (switched_bytes > 0) written_.Add(switched_bytes, now);
  const double memtables_share = budget_->Pressure(*tree_);
  gate_->SetPace(PaceFor(std::max(components_share, memtables_share), written_.Get(now)));
}

Background::ComponentLimits Background::LimitsOf(const Version& version) const {
  ComponentLimits limits;
  {
    port::MutexLock lock(mutex_);
    limits.expected = policy_->ExpectedComponents(version);
  }
  limits.max = config_.components_max == 0 ? 2 * limits.expected : config_.components_max;
  limits.max = std::max(limits.max, limits.expected + 1);
  return limits;
}

uint64_t Background::PendingBytes(const Version& version) const {
  port::MutexLock lock(mutex_);
  return policy_->PendingBytes(version);
}

void Background::LimitLevel0Merges(size_t tables) {
  port::MutexLock lock(mutex_);
  policy_->LimitLevel0Merges(tables);
  ChangedLocked();
}

void Background::NoteOutcome(size_t kind, const Status& status) {
  // Work that was cancelled because the database closes has not failed.
  if (status.IsAborted() && stopping_.load(std::memory_order_acquire)) return;
  if (status.IsIOFenced()) fence_->Raise(status);
  bool first_failure;
  {
    port::MutexLock lock(mutex_);
    Failures& of_kind = failures_[kind];
    if (status.ok()) {
      of_kind.count = 0;
    } else {
      if (of_kind.count++ == 0) of_kind.since = Clock::now();
      of_kind.retry_at = Clock::now() + PauseAfter(of_kind.count);
      statistics_->Add(Ticker::kRetries);
    }
    first_failure = of_kind.count == 1;
    of_kind.last = status;
    ChangedLocked();
  }
  if (!status.ok()) {
    gate_->NoteError(status);
    if (first_failure && !fence_->raised())
      Log().error("background work failed, to be tried again: {}", status.ToString());
  }
}

Status Background::last_error() const {
  port::MutexLock lock(mutex_);
  for (const Failures& failures : failures_) {
    if (!failures.last.ok()) return failures.last;
  }
  return Status::OK();
}

// -------- Flushes

bool Background::flushes_fail() const {
  port::MutexLock lock(mutex_);
  // Flushes go to other memory nodes where there are some, but for the manifest.
  return failures_[kFlush].count > 0 || failures_[kHouse].count > 0;
}

bool Background::FlushOne(Clock::time_point* due) {
  if (!flush_hint_.exchange(false, std::memory_order_acq_rel)) return false;
  {
    port::MutexLock lock(mutex_);
    if (Ended() || !tree_->HasMemtableToFlush()) return false;
    if (failures_[kFlush].count > 0 && Clock::now() < failures_[kFlush].retry_at) {
      *due = std::min(*due, failures_[kFlush].retry_at);
      flush_hint_.store(true, std::memory_order_release);
      return false;
    }
    ++flushes_running_;
  }
  SetHint(&flush_hint_);
  const std::shared_ptr<Memtable> memtable = tree_->TakeForFlush();
  if (memtable != nullptr) {
    const Status status = FlushInto(memtable);
    if (!status.ok()) tree_->ReturnUnflushed(*memtable);
    if (status.ok()) gate_->NoteProgress();
    UpdateGate();
    NoteOutcome(kFlush, status);
  }
  port::MutexLock lock(mutex_);
  --flushes_running_;
  ChangedLocked();
  return memtable != nullptr;
}

Status Background::FlushInto(const std::shared_ptr<Memtable>& memtable) {
  const auto start = Clock::now();
  FlushOutcome outcome;
  DLSM_RETURN_IF_ERROR(
      FlushMemtable(*memtable, snapshots_->List(), *store_, new_table_number_, &outcome));
  const auto took = Clock::now() - start;
  for (const MergeNode& node : nodes_) node.load->NoteTransfer(outcome.bytes, took);
  const Status installed = tree_->InstallFlush(memtable, outcome.tables);
  if (!installed.ok()) {
    for (const TableRef& table : outcome.tables) table->MarkObsolete();
    return installed;
  }
  traffic_.AddWritten(0, outcome.bytes);
  statistics_->Add(Ticker::kFlushes);
  statistics_->Add(Ticker::kFlushBytes, outcome.bytes);
  statistics_->Add(Ticker::kFlushMicros, MicrosSince(start));
  return Status::OK();
}

// A handle that was taken over, or whose session has ended, says so even where it has nothing to
// flush.
Status Background::Usable() const { return fence_->raised() ? fence_->status() : gate_->refusal(); }

Status Background::Flush(bool wait) {
  const uint64_t target = tree_->Memtables().newest_number;
  bool target_is_empty = false;
  bool news = true;  // For the threads that flush. Who waits here must not keep others awake by it.
  if (wait) {
    port::MutexLock lock(mutex_);
    ForgiveLocked(&failures_[kFlush]);
  }
  while (true) {
    if (tree_->Memtables().newest_number == target) {
      port::MutexLock lock(gate_mutex_);
      const MemtableBudget::Ruling ruling = budget_->RulingFor(*tree_);
      const Tree::SwitchResult result = tree_->Switch(/*bytes=*/0, ruling.immutables_max);
      if (result == Tree::SwitchResult::kSwitched) {
        tree_->LookAgainAt(ruling.look_at_next);
        news = true;
      }
      // Somebody else may have switched since: then it was the next memtable that is empty.
      target_is_empty |=
          result == Tree::SwitchResult::kNotNeeded && tree_->Memtables().newest_number == target;
    }
    if (std::exchange(news, false)) Wake();
    if (!wait) return Usable();
    port::MutexLock lock(mutex_);
    const uint64_t oldest = tree_->Memtables().oldest_number;
    if (oldest > target || (target_is_empty && oldest == target)) return Usable();
    // Merges that fail do not keep memtables from being flushed.
    DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kFlush]));
    changed_.WaitUntil(Clock::now() + kHouseInterval);
  }
}

// -------- Merges

std::optional<MergePick> Background::PickLocked() {
  if (adding_guards_) return std::nullopt;
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  std::optional<MergePick> pick = policy_->Pick(*version, busy_);
  return pick.has_value() ? pick : PickForRoomLocked(*version);
}

// While the memory node has little room: merges that make some, though none is due.
std::optional<MergePick> Background::PickForRoomLocked(const Version& version) {
  const uint64_t own_bytes = version.bytes();
  const uint64_t free_bytes =
      store_->memory()->full() ? 0 : room_.FreeBytes(own_bytes).value_or(UINT64_MAX);
  if (!RoomWatch::IsPressing(own_bytes, free_bytes)) return std::nullopt;
  for (size_t level = 0; level < version.levels().size(); ++level) {
    bool done;
    std::optional<MergePick> pick =
        policy_->PickManual(version, busy_, level, nullptr, nullptr, &done);
    if (pick.has_value() && pick->MakesRoom(version.comparator()) &&
        RoomWatch::IsPressing(pick->input_bytes(), free_bytes)) {
      return pick;
    }
  }
  return std::nullopt;
}

void Background::MarkBusyLocked(const MergePick& pick) {
  for (const TableRef& table : pick.inputs) busy_.insert(table->number());
  for (const TableRef& table : pick.target_inputs) busy_.insert(table->number());
  merges_.push_back(&pick);
}

void Background::UnmarkBusyLocked(const MergePick& pick) {
  for (const TableRef& table : pick.inputs) busy_.erase(table->number());
  for (const TableRef& table : pick.target_inputs) busy_.erase(table->number());
  std::erase(merges_, &pick);
  ChangedLocked();
}

bool Background::merges_fail() const {
  port::MutexLock lock(mutex_);
  return std::any_of(failures_.begin() + kMerge, failures_.end(),
                     [](const Failures& failures) { return failures.count > 0; });
}

bool Background::MergeOne(Clock::time_point* due) {
  if (!merge_hint_.exchange(false, std::memory_order_acq_rel)) return false;
  std::optional<MergePick> pick;
  {
    port::MutexLock lock(mutex_);
    if (Ended()) return false;
    if (failures_[kMerge].count > 0 && Clock::now() < failures_[kMerge].retry_at) {
      *due = std::min(*due, failures_[kMerge].retry_at);
      merge_hint_.store(true, std::memory_order_release);
      return false;
    }
    pick = PickLocked();
    if (!pick.has_value()) return false;
    MarkBusyLocked(*pick);
  }
  SetHint(&merge_hint_);
  const Status status = Merge(*pick);
  NoteOutcome(kMerge, status);
  UpdateGate();
  port::MutexLock lock(mutex_);
  UnmarkBusyLocked(*pick);
  pick.reset();  // Who waits for the merge may look for its inputs' memory.
  return true;
}

Status Background::Merge(const MergePick& pick) {
  const auto start = Clock::now();
  MergeOutcome outcome;
  if (!pick.trivial_move) {
    DLSM_RETURN_IF_ERROR(RunMerge(pick, config_.merge, snapshots_->List(), *store_, nodes_,
                                  new_table_number_, stopping_, scheduler_, &outcome));
  }
  const MergeStatistics& statistics = outcome.statistics;
  const uint64_t tables = outcome.tables.size();
  DLSM_RETURN_IF_ERROR(Install(pick, outcome.tables));
  outcome.tables.clear();  // The next merge may take them; who waits for it looks for their memory.
  gate_->NoteProgress();
  if (pick.trivial_move) {
    statistics_->Add(Ticker::kTrivialMoves, pick.inputs.size());
    return Status::OK();
  }
  statistics_->Add(outcome.remote ? Ticker::kMergesRemote : Ticker::kMergesLocal);
  traffic_.AddWritten(pick.target_level, statistics.bytes_written);
  if (pick.in_place()) {
    traffic_.AddInPlace(pick.target_level, statistics.bytes_written);
  } else {
    traffic_.AddTakenAlong(pick.target_level, BytesOf(pick.target_inputs));
  }
  statistics_->Add(Ticker::kMergeBytesRead, statistics.bytes_read);
  statistics_->Add(Ticker::kMergeBytesWritten, statistics.bytes_written);
  statistics_->Add(Ticker::kMergeMicros, MicrosSince(start));
  if (pick.in_place()) statistics_->Add(Ticker::kMergesInPlace);
  if (pick.for_reads) {
    statistics_->Add(pick.in_place() ? Ticker::kMergesForReads : Ticker::kMergesDownForReads);
  }
  statistics_->Add(Ticker::kMergeCalls, outcome.calls);
  statistics_->Add(Ticker::kMergeAllocations, statistics.allocations);
  statistics_->Add(Ticker::kMergeTables, tables);
  return Status::OK();
}

VersionEdit Background::BeginInstall(const MergePick& pick, const std::vector<TableRef>& outputs) {
  port::MutexLock lock(mutex_);
  while (adding_guards_) changed_.Wait();
  std::vector<const MergePick*> others = merges_;
  std::erase(others, &pick);
  VersionEdit edit = EditOf(pick, *tree_->views().Current()->version, outputs, others);
  adding_guards_ = AddsGuards(edit);
  return edit;
}

Status Background::Install(const MergePick& pick, const std::vector<TableRef>& outputs) {
  const VersionEdit edit = BeginInstall(pick, outputs);
  const Status installed = tree_->InstallMerge(edit);
  {
    port::MutexLock lock(mutex_);
    if (AddsGuards(edit)) adding_guards_ = false;
    ChangedLocked();
  }
  if (!installed.ok()) {
    for (const TableRef& table : outputs) table->MarkObsolete();
  }
  return installed;
}

Status Background::CompactRange(const Slice* begin, const Slice* end) {
  DLSM_RETURN_IF_ERROR(Flush(/*wait=*/true));
  for (size_t level = 0; level < ManualLevels(begin, end); ++level) {
    DLSM_RETURN_IF_ERROR(CompactLevel(level, begin, end));
  }
  return Status::OK();
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
      return policy_->ManualLevels(*version, begin, end);
    }
    changed_.WaitUntil(Clock::now() + kHouseInterval);
  }
}

Status Background::CompactLevel(size_t level, const Slice* begin, const Slice* end) {
  while (true) {
    std::optional<MergePick> pick;
    {
      port::MutexLock lock(mutex_);
      bool done = false;
      while (!pick.has_value()) {
        if (stopping_.load(std::memory_order_acquire)) return Status::Aborted("closing");
        if (fence_->raised()) return fence_->status();
        const std::shared_ptr<const Version> version = tree_->views().Current()->version;
        if (!adding_guards_) {
          pick = policy_->PickManual(*version, busy_, level, begin, end, &done);
        }
        if (done) return Status::OK();
        if (!pick.has_value()) changed_.WaitUntil(Clock::now() + kHouseInterval);
      }
      MarkBusyLocked(*pick);
    }
    const Status status = Merge(*pick);
    NoteOutcome(kMerge, status);
    UpdateGate();
    {
      port::MutexLock lock(mutex_);
      UnmarkBusyLocked(*pick);
    }
    DLSM_RETURN_IF_ERROR(status);
    // Level 0 goes as a whole; what was flushed meanwhile is not part of this request.
    if (level == 0) return Status::OK();
  }
}

// -------- Waiting

bool Background::IdleLocked() {
  return flushes_running_ == 0 && merges_.empty() && tree_->Memtables().immutable == 0 &&
         !PickLocked().has_value();
}

// The failures of before are forgiven: their cause may be gone, so who waits is told only of those
// that happen while he does.
void Background::ForgiveLocked(Failures* failures) {
  failures->count = 0;
  ChangedLocked();
}

Status Background::StuckLocked(const Failures& failures) const {
  if (stopping_.load(std::memory_order_acquire)) {
    return Status::Aborted("the database is being closed");
  }
  DLSM_RETURN_IF_ERROR(Usable());
  if (failures.count < kFailuresTolerated) return Status::OK();
  // Others may make room: merges, or followers that move on or whose leases end.
  const bool may_pass = failures.last.IsBusy() && Clock::now() - failures.since < config_.patience;
  return may_pass ? Status::OK() : failures.last;
}

Status Background::WaitIdle() {
  {
    port::MutexLock lock(mutex_);
    ForgiveLocked(&failures_[kFlush]);
    ForgiveLocked(&failures_[kMerge]);
    while (!IdleLocked()) {
      DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kFlush]));
      DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kMerge]));
      // A merge may have become due without an event, by what was read meanwhile.
      SetHint(&merge_hint_);
      changed_.WaitUntil(Clock::now() + kHouseInterval);
    }
  }
  tree_->views().Reclaim();
  return store_->memory()->SendFrees();
}

// -------- House keeping

void Background::Heartbeat(size_t node) {
  if (fence_->raised()) return;
  Status status = SendHeartbeat(node);
  bool for_good = !nodes_[node].rpc->lost().ok();
  if (status.IsAborted()) {  // The session has ended.
    for_good = true;
    status = Status::IOError(status.message());
  }
  if (!status.ok()) store_->memory()->NoteSilence(node);
  // Without its home nothing becomes durable. Other shards go on, and what they have is flushed.
  if (node == kHome && for_good && !status.ok()) gate_->Refuse(status);
  NoteOutcome(kHouse + node, status);
}

bool Background::answers(size_t node) const {
  port::MutexLock lock(mutex_);
  return failures_[kHouse + node].count == 0;
}

Status Background::SendHeartbeat(size_t number) {
  const MergeNode& node = nodes_[number];
  HeartbeatRequest request;
  request.session = node.session;
  request.publications_from = config_.publications_from;
  const uint64_t sent = node.load->sent_bytes();
  const uint64_t merge_mark = store_->memory()->MergeMark(number);
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(node.rpc->Call(Method::kHeartbeat, request.Encode(), &reply_bytes,
                                      Deadline::In(config_.timeout)));
  HeartbeatReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(reply_bytes));
  node.load->NoteReport(reply.merges, sent);
  store_->memory()->NoteReport(number, reply, merge_mark);
  port::MutexLock lock(mutex_);
  NoteRoomLocked(number, reply.free_bytes);
  return Status::OK();
}

// Where tables go to several memory nodes, the room of all of them counts.
void Background::NoteRoomLocked(size_t node, uint64_t free_bytes) {
  if (!store_->memory()->placeable(node)) return;
  free_bytes_[node] = free_bytes;
  uint64_t sum = 0;
  for (size_t i = 0; i < nodes_.size() && store_->memory()->placeable(i); ++i) {
    if (!free_bytes_[i].has_value()) return;
    sum += *free_bytes_[i];
  }
  const uint64_t own_bytes = tree_->views().Current()->version->bytes();
  room_.NoteReport(sum, own_bytes);
  if (RoomWatch::IsPressing(own_bytes, sum)) ChangedLocked();
}

// Reads wake nobody; where there were some, a policy may want to merge what they visited, and the
// more so once writes have ended.
void Background::LookForWornGuards() {
  const uint64_t reads = statistics_->Get(Ticker::kSeeks) + statistics_->Get(Ticker::kKeysRead);
  // Of all shards.
  const uint64_t keys_written = statistics_->Get(Ticker::kKeysWritten);
  const uint64_t flushes = statistics_->Get(Ticker::kFlushes);
  port::MutexLock lock(mutex_);
  // Writers that wait are no sign that there are none.
  const bool waiting = gate_->closed() || flushes_running_ > 0;
  const bool quiet = quiet_watch_.IsQuiet(Clock::now(), keys_written, flushes) && !waiting;
  policy_->SetQuiet(quiet);
  const bool turned_quiet = std::exchange(quiet_, quiet) != quiet;
  if (std::exchange(reads_seen_, reads) != reads || turned_quiet) ChangedLocked();
}

void Background::KeepHouse(size_t node) {
  if (node == 0) {
    tree_->views().Reclaim();
    LookForWornGuards();
    ShedMetadata(*store_, tree_, &metadata_hand_);
  }
  if (fence_->raised()) return;
  PlacedMemory& memory = *store_->memory();
  // An error stays with the heartbeat, which meets it too.
  if (memory.queued_free_bytes(node) > 0) memory.SendFrees(node).PermitUncheckedError();
  const bool was_full = memory.full(node);
  if (!memory.RefillReserve(node) && memory.full(node)) return;
  // A publication finds room as well, without opening the gate; and where there is nothing to flush
  // or to merge, nobody else would.
  if (!was_full && !gate_->closed(StallReason::kMemory)) return;
  UpdateGate();
  if (!was_full && gate_->closed(StallReason::kMemory)) return;  // Another node is full.
  // What failed for want of room need not wait for its next attempt.
  port::MutexLock lock(mutex_);
  ForgiveLocked(&failures_[kFlush]);
  ForgiveLocked(&failures_[kMerge]);
}

}  // namespace dlsm
