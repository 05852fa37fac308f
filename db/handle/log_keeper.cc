#include "db/handle/log_keeper.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A frame that nobody waits for is on its way within this time.
constexpr std::chrono::milliseconds kPostInterval(1);
// What flushes have made unnecessary is taken away as often.
constexpr std::chrono::milliseconds kLookInterval(100);
// While writers wait for room.
constexpr std::chrono::milliseconds kRoomInterval(2);

}  // namespace

LogKeeper::LogKeeper(Parts parts)
    : parts_(std::move(parts)),
      persister_(parts_.pool, 1, [this] { return RunPersist(); }),
      task_(parts_.pool, 1, [this] { return Run(); }) {
  task_.Wake();
}

LogKeeper::Clock::time_point LogKeeper::Run() {
  if (parts_.fence->raised()) {
    parts_.log->Fail(parts_.fence->status());
    return Clock::time_point::max();
  }
  const Status status = WithinMemory([this] {
    port::AllocationPoint("log: looked after");
    return LookAfter();
  });
  if (status.IsIOFenced()) parts_.log->Fail(status);
  if (!status.ok() && !failing_) Log().Warn("the log, to be tried again: {}", status.ToString());
  failing_ = !status.ok();
  const Clock::time_point next = status.ok() ? NextLook() : Clock::now() + kLookInterval;
  return std::min(next, PersistWhenDue());
}

// So often that what was written is seen in time to be persisted.
std::chrono::milliseconds LogKeeper::LookInterval() const {
  if (!parts_.log->has_files() || parts_.sync_interval.count() == 0) return kLookInterval;
  return std::clamp(parts_.sync_interval / 2, kPostInterval, kLookInterval);
}

// What a look sees first was written after the look before it.
LogKeeper::Clock::time_point LogKeeper::PersistWhenDue() {
  WriteLog& log = *parts_.log;
  if (log.AwaitsPersist()) persister_.Wake();
  if (parts_.sync_interval.count() == 0 || !log.HasUnpersisted()) {
    unpersisted_since_.reset();
    return Clock::time_point::max();
  }
  const auto now = Clock::now();
  if (!unpersisted_since_.has_value()) unpersisted_since_ = now;
  const auto patience = parts_.sync_interval - LookInterval();
  if (now >= *unpersisted_since_ + patience) {
    persister_.Wake();
    unpersisted_since_ = now;
  }
  return *unpersisted_since_ + std::max<Clock::duration>(patience, kPostInterval);
}

LogKeeper::Clock::time_point LogKeeper::RunPersist() try {
  WriteLog& log = *parts_.log;
  if (!log.AwaitsPersist() && !log.HasUnpersisted()) return Clock::time_point::max();
  const Status status = log.Persist();
  if (!status.ok() && !persist_failing_) {
    Log().Warn("the log, to be persisted again: {}", status.ToString());
  }
  persist_failing_ = !status.ok();
  return Clock::time_point::max();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// A handle that nobody writes to has nothing to be looked after: then the next write wakes the
// keeper. A write that is under way had its place before the rest began, and would wake nobody.
LogKeeper::Clock::time_point LogKeeper::NextLook() {
  WriteLog& log = *parts_.log;
  const LogPosition tail = log.tail();
  if (log.HasWaiters()) return Clock::now() + kRoomInterval;
  if (log.HasUnposted()) return Clock::now() + kPostInterval;
  const bool moved = std::exchange(seen_, tail) != tail;
  if (moved || log.MayShrink() || log.CompleteUpTo() < tail) {
    if (log.mapped()) return Clock::now() + LookInterval();
    log.BeginRest();
    return Clock::now() + (log.CompleteUpTo() > log.durable() || log.CompleteUpTo() < tail
                               ? kPostInterval
                               : LookInterval());
  }
  log.BeginRest();
  return log.tail() == tail ? Clock::time_point::max() : Clock::now() + kPostInterval;
}

Status LogKeeper::LookAfter() {
  DLSM_RETURN_IF_ERROR(parts_.log->Post());
  DLSM_RETURN_IF_ERROR(Truncate());
  return GiveSegments();
}

Status LogKeeper::Truncate() {
  LogPosition needed = parts_.log->CompleteUpTo();
  for (Tree* tree : parts_.trees) needed = std::min(needed, tree->LogNeededFrom());
  return parts_.log->Truncate(needed);
}

// A segment is recorded before its first frame: what is in no record nobody finds.
Status LogKeeper::GiveSegments() {
  WriteLog& log = *parts_.log;
  if (log.full()) FlushWhatIsNeededLongest();
  while (log.WantsSegment()) {
    if (log.ReuseSegment()) continue;
    if (unrecorded_.empty()) {
      RemoteSpan span;
      const Status allocated = parts_.allocate(kLogSegmentHeaderBytes + log.segment_bytes(), &span);
      // The memory node is full. What flushes make unnecessary can be used again.
      if (allocated.IsBusy()) FlushWhatIsNeededLongest();
      DLSM_RETURN_IF_ERROR(allocated);
      unrecorded_.push_back(span);
    }
    DLSM_RETURN_IF_ERROR(parts_.record(log.Record(unrecorded_)));
    DLSM_RETURN_IF_ERROR(log.AddSegment(unrecorded_.back()));
    unrecorded_.pop_back();
  }
  return Status::OK();
}

void LogKeeper::FlushWhatIsNeededLongest() {
  LogPosition needed = UINT64_MAX;
  std::vector<LogPosition> from;
  for (Tree* tree : parts_.trees) {
    from.push_back(tree->LogNeededFrom());
    needed = std::min(needed, from.back());
  }
  for (size_t shard = 0; shard < from.size(); ++shard) {
    if (from[shard] <= needed + parts_.log->segment_bytes()) parts_.flush(shard);
  }
}

}  // namespace dlsm
