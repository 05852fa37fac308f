// How the log gets into the log node's files.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "db/log/write_log.h"
#include "db/log/write_log_step.h"
#include "port/clock.h"
#include "port/sync_point.h"
#include "util/status_macros.h"

namespace dlsm {

Status WriteLog::AwaitPersisted(LogPosition end) {
  assert(has_files());
  DLSM_RETURN_IF_ERROR(AwaitDurable(end));
  return AwaitStep(
      Step::kPersist, [&] { return persisted() >= end; },
      [this](Deadline deadline) { return PersistOnce(deadline); });
}

Status WriteLog::Persist() {
  assert(has_files());
  DLSM_RETURN_IF_ERROR(AwaitDurable(CompleteUpTo()));
  uint64_t number;
  {
    const port::MutexLock lock(mutex_);
    number = persists_begun_ + 1;
  }
  return AwaitStep(
      Step::kPersist, [&] { return persists_done_.load(std::memory_order_acquire) >= number; },
      [this](Deadline deadline) { return PersistOnce(deadline); });
}

// The header costs a synced write as much as its frame. So it goes along only where something waits
// for it, and now and then: its start mark moves on, segments wait to be used again, or there is
// nothing else. The persisted mark that the disk has is older then than it could be, which is safe.
Status WriteLog::PersistOnce(Deadline deadline) {
  constexpr auto kHeaderInterval = std::chrono::milliseconds(100);
  const auto begun = port::Clock::now();
  const LogPosition to = mapped_ ? CompleteUpTo() : durable();
  std::vector<RemoteSpan> spans;
  uint64_t number;
  uint64_t bytes = 0;
  {
    const port::MutexLock lock(mutex_);
    number = ++persists_begun_;
    const LogPosition from = std::max(persisted(), start_);
    if (to > from) {
      spans = SpansLocked(from, to);
      bytes = to - from;
    }
    if (spans.empty() || !leaving_.empty() || start_ != header_start_ ||
        begun >= header_at_ + kHeaderInterval) {
      spans.push_back(config_.header);
      header_start_ = start_;
      header_at_ = begun;
    }
  }
  port::SyncPoint("log: persist");
  Status status = parts_.persist(spans, deadline);
  const Statistics::Mine counters = parts_.statistics->OfThisThread();
  counters.Add(Ticker::kLogPersists);
  counters.Add(Ticker::kLogPersistMicros, port::MicrosecondsSince(begun));
  if (status.IsAborted()) {
    status = Status::IOError(status.message());
    Fail(status);
  }
  if (!status.ok()) {
    const port::MutexLock lock(mutex_);
    header_at_ = {};  // The next one takes it along.
    return status;
  }
  counters.Add(Ticker::kLogPersistedBytes, bytes);
  bool let_go;
  {
    const port::MutexLock lock(mutex_);
    persisted_.store(std::max(persisted(), to), std::memory_order_release);
    persists_done_.store(number, std::memory_order_release);
    const size_t spare = spare_.size();
    LetGoLocked(number);
    let_go = spare_.size() > spare;
    changed_.SignalAll();  // The mark is for readers: nobody has to wait for it.
  }
  if (let_go) parts_.wake();
  // What the database is no longer this handle's for, its taker may be reading. If the mark does
  // not get there, the log says less of itself than it could.
  if (IsMine()) PutMarkAndWait(LogMark::kPersisted, to).PermitUncheckedError();
  return Status::OK();
}

// With its first frame a segment gets its header.
std::vector<RemoteSpan> WriteLog::SpansLocked(LogPosition from, LogPosition to) const {
  std::vector<RemoteSpan> spans;
  while (from < to) {
    const uint64_t start = from % config_.segment_bytes;
    const uint64_t bytes = std::min(to - from, config_.segment_bytes - start);
    const uint64_t begin = start == 0 ? 0 : kLogSegmentHeaderBytes + start;
    const Segment& segment = segments_[from / config_.segment_bytes - segments_.front().number];
    spans.push_back(segment.span.Sub(begin, kLogSegmentHeaderBytes + start + bytes - begin));
    from += bytes;
  }
  return spans;
}

// What waits for a persist of at most this number may be used again.
void WriteLog::LetGoLocked(uint64_t persist) {
  const auto kept = std::partition(leaving_.begin(), leaving_.end(), [&](const Leaving& leaving) {
    return leaving.persist > persist;
  });
  for (auto each = kept; each != leaving_.end(); ++each) spare_.push_back(each->span);
  leaving_.erase(kept, leaving_.end());
}

LogPosition WriteLog::SyncedUpTo() {
  if (config_.level == LogLevel::kDisk) return persisted();
  // If it is not so, that is for writers to be told.
  if (mapped_) AwaitMappedDurable(CompleteUpTo()).PermitUncheckedError();
  return durable();
}

}  // namespace dlsm
