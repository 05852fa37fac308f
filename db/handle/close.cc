// Closing databases.

#include <algorithm>
#include <chrono>
#include <new>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "db/handle/db_impl.h"
#include "port/clock.h"
#include "port/sync_point.h"
#include "util/deadline.h"
#include "util/log.h"
#include "util/other_process.h"
#include "util/out_of_memory.h"

namespace dlsm {

Status DbImpl::FinishPublisher(bool flushed, bool* end_is_published) {
  *end_is_published = false;
  if (publisher_ == nullptr) return Status::OK();
  RemoteSpan image;
  const Status finished = publisher_->Finish(flushed, &image);
  *end_is_published = image.bytes > 0;
  shards_.front()->session().Keep(image);
  publisher_.reset();
  return shards_.front()->Named(finished);
}

// Each shard is closed, whatever becomes of the others; one that could not be flushed keeps the
// manifest that it has. Memory nodes that have just answered go first: to wait for the others may
// take longer than their leases.
Status DbImpl::Close() try {
  if (!opened_by_.IsHere()) return OpenedByOtherProcess(opened_by_);
  if (!state_.Close()) return Status::OK();
  Status closed = CloseAll();
  publisher_.reset();
  writer_.reset();
  log_keeper_.reset();
  workers_.reset();
  shards_.clear();
  log_.reset();
  links_.clear();
  return closed;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Status DbImpl::CloseAll() {
  Status first_error;
  if (workers_ != nullptr && read_only()) {
    listeners_.TellClosing();
    workers_->StopWork();
    std::vector<size_t> houses(links_.size());
    std::iota(houses.begin(), houses.end(), size_t{0});
    return CloseHouses(houses);
  }
  if (workers_ != nullptr) {
    listeners_.TellClosing();
    if (publisher_ != nullptr) publisher_->Stop();
    if (callers_.own_code()) workers_->EndThreads();
    std::vector<bool> flushed;
    KeepFirstError(AwaitFlushes(&flushed), &first_error);
    port::SyncPoint("close: flushed");
    const bool all_flushed = first_error.ok();
    workers_->StopWork();
    StopLog(all_flushed);
    bool end_is_published = false;
    Status published = FinishPublisher(/*flushed=*/first_error.ok(), &end_is_published);
    KeepFirstError(std::move(published), &first_error);
    Status put = PutManifests(&flushed);
    // Another manifest may be in force than the one that names what was published last: one whose
    // answer was lost. So what sessions leave behind followers may still read there. Where the end
    // was not published the number is beyond all that may be visible already; the next one may be
    // beyond the next owner's first publication as well, which nobody could follow then.
    if (end_is_published && !put.ok()) unnamed_from_.fetch_add(1, std::memory_order_acq_rel);
    KeepFirstError(std::move(put), &first_error);
    Status closed = CloseHouses(HousesToClose(flushed));
    KeepFirstError(std::move(closed), &first_error);
  }
  return first_error;
}

Status DbImpl::CloseHouses(const std::vector<size_t>& houses) {
  Status first_error;
  for (const size_t house : houses) {
    AwaitTransfers(*links_[house]);
    workers_->StopHouse(house);
    Status closed = CloseShardsAt(*links_[house]);
    KeepFirstError(std::move(closed), &first_error);
  }
  return first_error;
}

// The last manifest of a handle that has flushed everything names no log. Otherwise the next open
// finds the rest there.
void DbImpl::StopLog(bool flushed) {
  if (log_ == nullptr) return;
  if (log_keeper_ != nullptr) log_keeper_->Stop();
  if (flushed) return shards_.front()->tree().ForgetLog();
  const Status posted = log_->has_files() ? log_->Persist() : log_->Post();
  if (!posted.ok()) Log().Warn("the log is not whole: {}", posted.ToString());
}

// Of shards that are flushed; *flushed says afterwards whether they have been put. Where one has
// timed out the others of its memory node keep those that they have, instead of waiting for a
// time-out each: all of their tables are in them.
Status DbImpl::PutManifests(std::vector<bool>* flushed) {
  Status first_error;
  std::set<const MemoryNodeLink*> hanging;
  for (const auto& shard : shards_) {
    const size_t number = shard->number();
    if (!(*flushed)[number]) continue;
    (*flushed)[number] = false;
    if (hanging.contains(&shard->link())) continue;
    Status put = shard->PutManifest();
    (*flushed)[number] = put.ok();
    if (put.IsTimedOut()) hanging.insert(&shard->link());
    KeepFirstError(std::move(put), &first_error);
  }
  return first_error;
}

// All of them, in the order of closing. It is fixed before the first is closed: one that answers
// again, or no longer, meanwhile still has its turn.
std::vector<size_t> DbImpl::HousesToClose(const std::vector<bool>& flushed) const {
  std::vector<size_t> houses(links_.size());
  std::iota(houses.begin(), houses.end(), size_t{0});
  std::stable_partition(houses.begin(), houses.end(),
                        [&](size_t house) { return AllIsWellAt(*links_[house], flushed); });
  return houses;
}

// Transfers that were given up may land for some moments yet, and sessions are not closed before;
// heartbeats go on meanwhile.
void DbImpl::AwaitTransfers(MemoryNodeLink& link) const {
  constexpr std::chrono::milliseconds kPause(5);
  constexpr std::chrono::milliseconds kPatience(5000);
  const auto until =
      Deadline::In(std::min(kPatience, std::chrono::milliseconds(options_.operation_timeout_ms)));
  while (link.fabric().MayStillLand() && !until.Passed()) port::SleepFor(kPause);
}

bool DbImpl::AllIsWellAt(const MemoryNodeLink& link, const std::vector<bool>& flushed) const {
  return std::all_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
    const size_t node = shard->NodeAt(link);
    if (node == shard->nodes()) return true;
    return node == 0 ? flushed[shard->number()] : shard->background().answers(node);
  });
}

// Once a session has not been closed in time the others there are not waited for as well.
Status DbImpl::CloseShardsAt(const MemoryNodeLink& link) {
  Status first_error;
  bool hangs = false;
  for (const auto& shard : shards_) {
    if (shard->NodeAt(link) == shard->nodes()) continue;
    if (hangs) {
      shard->LeaveAt(link);
      continue;
    }
    Status closed = shard->CloseAt(link);
    hangs = closed.IsTimedOut();
    KeepFirstError(std::move(closed), &first_error);
  }
  return first_error;
}

DbImpl::~DbImpl() {
  const Status status = Close();
  if (!status.ok()) {
    Log().Error("closing database \"{}\": what was not flushed {}: {}", name_,
                log_level_ == LogLevel::kNone ? "is lost" : "is in its log only",
                status.message().ToStringView());
  }
}

}  // namespace dlsm
