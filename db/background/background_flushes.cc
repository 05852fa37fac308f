// From memtables to level 0.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "db/background/background.h"
#include "db/background/flush_job.h"
#include "port/allocation_point.h"
#include "port/sync_point.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

bool Background::flushes_fail() const {
  port::MutexLock lock(mutex_);
  // Flushes go to other memory nodes where there are some, but for the manifest.
  return failures_[kFlush].any() || failures_[kHouse].any();
}

bool Background::FlushOne(Clock::time_point* due) {
  if (!flush_hint_.exchange(false, std::memory_order_acq_rel)) return false;
  return FlushNext(Runner::kThread, UINT64_MAX, due);
}

// Who may begin is asked under the mutex that a caller takes between its turn's begin and anything
// that makes a flush or a merge due. So no thread begins what has become due by that.
bool Background::FlushNext(Runner runner, uint64_t number_max, Clock::time_point* due) {
  {
    port::MutexLock lock(mutex_);
    if (runner == Runner::kThread && callers_->own_code() && callers_->flushing()) {
      flush_hint_.store(true, std::memory_order_release);
      return false;
    }
    if (EndedFor(runner) || !tree_->HasMemtableToFlush(number_max)) return false;
    if (failures_[kFlush].rests()) {
      *due = std::min(*due, failures_[kFlush].retry_at());
      flush_hint_.store(true, std::memory_order_release);
      return false;
    }
    ++flushes_running_;
  }
  SetHint(&flush_hint_, WorkSignal::Work::kFlushes);
  const std::shared_ptr<Memtable> memtable = tree_->TakeForFlush(number_max);
  if (memtable != nullptr) {
    const Status status = FlushAndTell(memtable);
    if (!status.ok()) tree_->ReturnUnflushed(*memtable);
    // One that has to wait for those before it has not come through: if it counted as such, nobody
    // would ever be told that those fail, and that it is flushed anew each time.
    const bool waits = status.ok() && tree_->Memtables().oldest_number <= memtable->number();
    if (status.ok() && !waits) gate_->NoteProgress();
    UpdateGate();
    if (!waits) NoteOutcome(kFlush, status);
  }
  port::MutexLock lock(mutex_);
  --flushes_running_;
  ChangedLocked();
  return memtable != nullptr;
}

bool Background::FlushForCaller(uint64_t number, Clock::time_point* due) {
  if (FlushNext(Runner::kCaller, number, due)) return true;
  {
    port::MutexLock lock(mutex_);
    const WorkFailures& failures = failures_[kFlush];
    if (!failures.any() || !failures.last().IsBusy()) return false;
  }
  return MergeNext(Runner::kCaller, due);
}

// Tables may find no memory here to be built in. Then those that there are go, and the memtable is
// as it was.
Status Background::FlushInto(const std::shared_ptr<Memtable>& memtable, FlushEvent* event) {
  const auto start = Clock::now();
  const Statistics::Mine counters = statistics_->OfThisThread();
  FlushOutcome outcome;
  TablesOnTrial made(&outcome.tables);
  const std::vector<SequenceNumber> snapshots = snapshots_->List();
  DLSM_RETURN_IF_ERROR(WithinMemory([&] {
    port::AllocationPoint("flush: tables");
    return FlushMemtable(*memtable, snapshots, *store_, PlacedMemory::WhenFull::kReserve,
                         new_table_number_, &outcome);
  }));
  event->tables = outcome.tables.size();
  event->bytes = outcome.bytes;
  const auto took = Clock::now() - start;
  for (const MergeNode& node : nodes_) node.load->NoteTransfer(outcome.bytes, took);
  DLSM_RETURN_IF_ERROR(tree_->InstallFlush(memtable, outcome.tables));
  made.NoteInstalled();
  traffic_.AddWritten(0, outcome.bytes);
  counters.Add(Ticker::kFlushes);
  counters.Add(Ticker::kFlushBytes, outcome.bytes);
  counters.Add(Ticker::kFlushMicros, port::MicrosecondsSince(start));
  return Status::OK();
}

Status Background::FlushAndTell(const std::shared_ptr<Memtable>& memtable) {
  FlushEvent event;
  if (!listeners_.any()) [[likely]]
    return FlushInto(memtable, &event);
  const auto start = Clock::now();
  event.memtable = memtable->number();
  listeners_.Tell(&EventListener::OnFlushBegin, event, number_);
  event.status = FlushInto(memtable, &event);
  event.micros = port::MicrosecondsSince(start);
  listeners_.Tell(&EventListener::OnFlushCompleted, event, number_);
  return event.status;
}

Status Background::RequestFlush() { return FlushActive(/*wait=*/false, Clock::now()); }

void Background::BeginFlush() {
  {
    port::MutexLock lock(mutex_);
    ForgiveLocked(&failures_[kFlush]);
  }
  FlushActive(/*wait=*/false, Clock::now()).PermitUncheckedError();  // Who waits is told.
}

Status Background::AwaitFlush(Clock::time_point began) {
  const CallerWork::Turn turn(callers_, CallerWork::Turn::Kind::kFlush);
  {
    port::MutexLock lock(mutex_);
    ForgiveAgainLocked(began, &failures_[kFlush]);
    ++waiting_for_flush_;
  }
  Status flushed = FlushActive(/*wait=*/true, began);
  port::MutexLock lock(mutex_);
  --waiting_for_flush_;
  return flushed;
}

Status Background::FlushActive(bool wait, Clock::time_point began) {
  return FlushUpTo(tree_->Memtables().newest_number, wait, began);
}

Status Background::FlushUpTo(uint64_t target, bool wait, Clock::time_point began) {
  bool target_is_empty = false;
  bool news = true;  // For the threads that flush. Who waits here must not keep others awake by it.
  while (true) {
    std::optional<Clock::time_point> no_memory_since;
    if (tree_->Memtables().newest_number == target) {
      const GateKeeper::AskedSwitch asked = gate_keeper_.SwitchForFlush(target);
      news |= asked.switched;
      target_is_empty |= asked.is_empty;
      no_memory_since = asked.no_memory_since;
    }
    if (std::exchange(news, false)) Wake();
    if (!wait) return Usable();
    const auto reached = [&] {
      const uint64_t oldest = tree_->Memtables().oldest_number;
      return oldest > target || (target_is_empty && oldest == target);
    };
    auto look_again = Clock::now() + kHouseInterval;
    {
      port::MutexLock lock(mutex_);
      if (reached()) return Usable();
      // Merges that fail do not keep memtables from being flushed.
      DLSM_RETURN_IF_ERROR(StuckLocked(failures_[kFlush], began));
      if (no_memory_since.has_value() &&
          Clock::now() - std::max(*no_memory_since, began) >= config_.patience) {
        return OutOfMemtableMemory("not all was flushed");
      }
      if (!callers_->own_code()) {
        changed_.WaitUntil(look_again);
        continue;
      }
    }
    if (FlushForCaller(target, &look_again)) continue;
    port::MutexLock lock(mutex_);
    if (!reached()) changed_.WaitUntil(look_again);
  }
}

// The first flush leaves little for the second one, which is all that readers as of a later number
// wait for.
Status Background::Ingest(SequenceNumber number, std::vector<TableRef> tables, uint64_t bytes) {
  const auto began = Clock::now();
  TablesOnTrial trial(&tables);
  DLSM_RETURN_IF_ERROR(AwaitFlush(began));
  port::SyncPoint("ingest: to be switched");
  const CallerWork::Turn turn(callers_, CallerWork::Turn::Kind::kFlush);
  uint64_t memtable = 0;
  DLSM_RETURN_IF_ERROR(gate_keeper_.SwitchForIngest(number, tables, &memtable));
  port::SyncPoint("ingest: switched");
  {
    port::MutexLock lock(mutex_);
    ++waiting_for_flush_;
  }
  const Status flushed = FlushUpTo(memtable, /*wait=*/true, Clock::now());
  {
    port::MutexLock lock(mutex_);
    --waiting_for_flush_;
  }
  std::vector<TableRef> withdrawn;
  if (!flushed.ok() && tree_->WithdrawIngest(memtable, &withdrawn)) {
    // A put that has failed may be in force all the same, with these tables.
    if (tree_->PutManifest().ok()) return flushed;
    return Status::FromCode(flushed.code(),
                            flushed.message().ToString() +
                                "; if the process ends before the next flush, the entries of the "
                                "ingest may be there when the database is opened again");
  }
  trial.NoteInstalled();
  traffic_.AddWritten(0, bytes);
  const Statistics::Mine counters = statistics_->OfThisThread();
  counters.Add(Ticker::kIngests);
  counters.Add(Ticker::kIngestBytes, bytes);
  UpdateGate();
  Wake();
  return Status::OK();
}

}  // namespace dlsm
