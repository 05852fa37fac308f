#include "db/log/write_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "db/log/write_log_step.h"
#include "port/clock.h"
#include "port/scheduler.h"
#include "port/spin_wait.h"
#include "port/sync_point.h"
#include "util/coding.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status NoMemory() noexcept {
  return Status::Busy("this process has no memory for a frame of the log", "nothing was written");
}

}  // namespace

// -------- Places

void WriteLog::Place::Fill(SequenceNumber first, uint32_t count) {
  SealLogFrame(log_->config_.id, at_, bytes_, first, count, frame_);
  if (frame_ == apart_.get()) log_->CopyApart(*this);
  port::SyncPoint("log: filled");
  // Release: who sees the slot cleared sees the frame.
  slot_->from.store(0, std::memory_order_release);
  WriteLog& log = *std::exchange(log_, nullptr);
  if (log.rests_.load(std::memory_order_relaxed) && log.rests_.exchange(false)) [[unlikely]]
    log.parts_.wake();
}

void WriteLog::CopyApart(const Place& place) const {
  uint64_t done = 0;
  while (done < place.bytes_) {
    const LogPosition at = place.at_ + done;
    const uint64_t here =
        std::min<uint64_t>(place.bytes_ - done, config_.segment_bytes - at % config_.segment_bytes);
    std::memcpy(MemoryOf(at), place.apart_.get() + done, here);
    done += here;
  }
}

Status WriteLog::Reserve(uint64_t bytes, Place* place) {
  if (bytes > std::min(config_.bytes_max, kLogFrameBytesMax)) {
    return Status::InvalidArgument(
        "a write of " + std::to_string(bytes) + " bytes is larger than the log may be",
        "set log_bytes_max to more, or write less at a time");
  }
  Slot& slot = slots_.Local();
  while (true) {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
      const port::MutexLock lock(mutex_);
      return FailureLocked();
    }
    // A former owner's memory may be others': it stores nothing there.
    if (!IsMine()) [[unlikely]]
      return NotMine();
    LogPosition at = tail_.load(std::memory_order_seq_cst);
    if (!LiesInOneSegment(at, bytes) && place->apart_bytes_ < bytes) [[unlikely]] {
      DLSM_RETURN_IF_ERROR(WithinMemory(
          [&] {
            place->apart_ = std::make_unique_for_overwrite<char[]>(bytes);
            place->apart_bytes_ = bytes;
            return Status::OK();
          },
          &NoMemory));
      continue;
    }
    // Sequentially consistent, as is the swap after it: who has read a tail that includes this
    // place also finds the announcement.
    slot.from.store(at + 1, std::memory_order_seq_cst);
    port::InterleavingPoint();
    // A place is only taken where memory has been granted: so nothing waits behind it.
    const LogPosition granted = granted_.load(std::memory_order_acquire);
    if (at + bytes <= granted &&
        tail_.compare_exchange_strong(at, at + bytes, std::memory_order_seq_cst)) {
      place->slot_ = &slot;
      place->at_ = at;
      place->bytes_ = static_cast<uint32_t>(bytes);
      place->frame_ = LiesInOneSegment(at, bytes) ? MemoryOf(at) : place->apart_.get();
      place->log_ = this;
      const LogPosition ahead = config_.segment_bytes;
      if (granted - at >= ahead && granted - (at + bytes) < ahead) [[unlikely]]
        parts_.wake();
      return Status::OK();
    }
    slot.from.store(0, std::memory_order_release);
    if (at + bytes > granted) return Status::OK();
    // Another writer was faster.
  }
}

Status WriteLog::AwaitRoom(uint64_t bytes, bool may_wait, Deadline deadline) {
  {
    const port::MutexLock lock(mutex_);
    const LogPosition granted = granted_.load(std::memory_order_acquire);
    if (!failure_.ok() || granted - tail() >= bytes) return Status::OK();
    wanted_ = std::max(wanted_, bytes);
  }
  parts_.wake();
  if (!may_wait) {
    parts_.statistics->Add(Ticker::kWritesNotWaiting);
    return Status::Busy("the log has no room just now, and the write has no_slowdown",
                        "nothing was written");
  }
  if (deadline.Passed()) {
    return Status::Busy("the log at memory node " + config_.node + " has had no room for so long",
                        "nothing was written; flushes make room: do they fail?");
  }
  const auto begun = port::Clock::now();
  {
    const port::MutexLock lock(mutex_);
    // If there has been room meanwhile, nobody knows any more what this writer wants.
    if (failure_.ok() && wanted_ > 0) changed_.WaitUntil(deadline.time_point());
  }
  parts_.statistics->Add(Ticker::kStallMicrosLog, port::MicrosecondsSince(begun));
  return Status::OK();
}

// -------- What is complete and what is durable

LogPosition WriteLog::CompleteUpTo() {
  LogPosition complete = tail_.load(std::memory_order_seq_cst);
  slots_.ForEach([&complete](Slot& slot) {
    // Pairs with the release in Fill().
    const uint64_t from = slot.from.load(std::memory_order_seq_cst);
    if (from != 0) complete = std::min(complete, from - 1);
    return true;
  });
  return complete;
}

void WriteLog::AwaitComplete(LogPosition end) {
  port::SpinWait wait;
  while (CompleteUpTo() < end) wait.Pause();
}

Status WriteLog::AwaitDurable(LogPosition end) {
  AwaitComplete(end);
  if (mapped_) return AwaitMappedDurable(end);
  return AwaitStep(
      Step::kPost, [&] { return durable() >= end; },
      [this](Deadline /*deadline*/) { return PostChain(); });
}

Status WriteLog::Post() {
  if (mapped_) return Status::OK();
  while (HasUnposted()) {
    {
      const port::MutexLock lock(mutex_);
      Turn& turn = TurnLocked(Step::kPost);
      if (turn.taken || !failure_.ok()) return FailureLocked();
      turn.taken = true;
    }
    const Status status = PostChain();
    EndTurn(Step::kPost);
    DLSM_RETURN_IF_ERROR(Named(status));
  }
  return Status::OK();
}

Status WriteLog::PostChain() {
  const LogPosition from = durable();
  // A frame begins there: readers start at such positions, and compare where the log ends with
  // them.
  const LogPosition to = CompleteUpTo();
  if (to <= from) return Status::OK();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(parts_.queue_pairs->ForThisThread(config_.header.node, &queue_pair));
  Ticket last{};
  DLSM_RETURN_IF_ERROR(PostFrames(queue_pair, from, to, &last));
  // Writes of one queue pair take effect in their order: the mark is not there before the frames.
  DLSM_RETURN_IF_ERROR(PutMark(queue_pair, LogMark::kDurable, to, &last));
  if (!parts_.revocable) {
    DLSM_RETURN_IF_ERROR(queue_pair->PostRead(
        parts_.word, word_read_.span().Sub(0, sizeof(uint64_t)), Purpose::kLog, &last));
  }
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(last, Deadline::In(config_.timeout)));
  if (!parts_.revocable && DecodeFixed64(word_read_.data()) != parts_.mine) return NotMine();
  const Statistics::Mine counters = parts_.statistics->OfThisThread();
  counters.Add(Ticker::kLogChains);
  counters.Add(Ticker::kLogBytes, to - from);
  const port::MutexLock lock(mutex_);
  ++chains_;
  durable_.store(to, std::memory_order_release);
  return Status::OK();
}

Status WriteLog::PostFrames(QueuePair* queue_pair, LogPosition from, LogPosition to, Ticket* last) {
  while (from < to) {
    const uint64_t start = from % config_.segment_bytes;
    const uint64_t bytes = std::min(to - from, config_.segment_bytes - start);
    // With its first frame a segment gets its header.
    const uint64_t begin = start == 0 ? 0 : kLogSegmentHeaderBytes + start;
    const uint64_t end = kLogSegmentHeaderBytes + start + bytes;
    LocalSpan local;
    RemoteSpan remote;
    {
      const port::MutexLock lock(mutex_);
      const Segment& segment = segments_[from / config_.segment_bytes - segments_.front().number];
      local = segment.mirror.span().Sub(begin, end - begin);
      remote = segment.span.Sub(begin, end - begin);
    }
    DLSM_RETURN_IF_ERROR(queue_pair->PostWrite(local, remote, Purpose::kLog, last));
    from += bytes;
  }
  return Status::OK();
}

// The turns of a mark are taken alternately, so that one is whole whenever this is cut short.
Status WriteLog::PutMark(QueuePair* queue_pair, LogMark mark, LogPosition value, Ticket* last) {
  size_t& turn = mark_turns_[static_cast<size_t>(mark)];
  const size_t offset = LogMarkOffset(mark, turn);
  turn = 1 - turn;
  if (mapped_) {
    EncodeLogMark(config_.id, value, header_ + offset);
    return Status::OK();
  }
  EncodeLogMark(config_.id, value, marks_.data() + offset);
  return queue_pair->PostWrite(marks_.span().Sub(offset, kLogMarkBytes),
                               config_.header.Sub(offset, kLogMarkBytes), Purpose::kLog, last);
}

Status WriteLog::PutMarkAndWait(LogMark mark, LogPosition value) {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(parts_.queue_pairs->ForThisThread(config_.header.node, &queue_pair));
  Ticket last{};
  DLSM_RETURN_IF_ERROR(PutMark(queue_pair, mark, value, &last));
  return mapped_ ? Status::OK() : queue_pair->Wait(last, Deadline::In(config_.timeout));
}

Status WriteLog::AwaitMappedDurable(LogPosition end) {
  // The frames come before the word. A handle that takes the database over changes the word before
  // it reads the log. So either it finds all of these frames, or they are not acknowledged here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!IsMine()) return NotMine();
  LogPosition durable = durable_.load(std::memory_order_relaxed);
  while (durable < end &&
         !durable_.compare_exchange_weak(durable, end, std::memory_order_acq_rel)) {
  }
  if (!failed_.load(std::memory_order_acquire)) [[likely]]
    return Status::OK();
  const port::MutexLock lock(mutex_);
  return FailureLocked();
}

Status WriteLog::NotMine() {
  return Status::IOFenced("another process has taken this database over",
                          "its log is no longer this handle's");
}

// -------- Room

Status WriteLog::New(const Config& config, Parts parts, std::unique_ptr<WriteLog>* log) {
  assert(config.segment_bytes <= kLogSegmentBytesMax && config.header.bytes == kLogHeaderBytes);
  std::unique_ptr<WriteLog> made(new WriteLog(config, std::move(parts)));
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(made->parts_.queue_pairs->ForThisThread(config.header.node, &queue_pair));
  made->header_ = queue_pair->Direct(config.header);
  made->mapped_ = made->header_ != nullptr;
  if (made->mapped_) {
    char* const word = queue_pair->Direct(made->parts_.word);
    if (word == nullptr) return Status::IOError("the database's header is not mapped");
    made->word_ = reinterpret_cast<std::atomic<uint64_t>*>(word);
  } else {
    DLSM_RETURN_IF_ERROR(made->parts_.queue_pairs->NewBuffer(config.header.node, sizeof(uint64_t),
                                                             &made->word_read_));
    DLSM_RETURN_IF_ERROR(
        made->parts_.queue_pairs->NewBuffer(config.header.node, kLogHeaderBytes, &made->marks_));
  }
  for (const LogMark mark : {LogMark::kStart, LogMark::kDurable, LogMark::kPersisted}) {
    DLSM_RETURN_IF_ERROR(made->PutMarkAndWait(mark, 0));
  }
  // No manifest on disk names a log whose header is not there.
  if (made->has_files()) DLSM_RETURN_IF_ERROR(made->Persist());
  *log = std::move(made);
  return Status::OK();
}

bool WriteLog::WantsSegment() const {
  const port::MutexLock lock(mutex_);
  const uint64_t ahead = granted_.load(std::memory_order_acquire) - tail();
  if (ahead >= std::max(config_.segment_bytes, wanted_)) return false;
  if (!spare_.empty()) return !parts_.may_still_land();
  return segments_.size() < kLogSegmentsMax &&
         HeldBytesLocked() < config_.bytes_max + config_.segment_bytes;
}

bool WriteLog::MayShrink() const {
  const port::MutexLock lock(mutex_);
  return start_ / config_.segment_bytes < tail() / config_.segment_bytes;
}

bool WriteLog::full() const {
  const port::MutexLock lock(mutex_);
  return spare_.empty() && leaving_.empty() &&
         HeldBytesLocked() + config_.segment_bytes >= config_.bytes_max;
}

bool WriteLog::ReuseSegment() {
  RemoteSpan span;
  {
    const port::MutexLock lock(mutex_);
    if (spare_.empty() || parts_.may_still_land()) return false;
    span = spare_.back();
  }
  if (!AddSegment(span).ok()) return false;
  const port::MutexLock lock(mutex_);
  spare_.pop_back();
  return true;
}

Status WriteLog::AddSegment(const RemoteSpan& span) {
  assert(span.bytes == kLogSegmentHeaderBytes + config_.segment_bytes);
  Segment segment;
  segment.span = span;
  char* memory;
  if (mapped_) {
    QueuePair* queue_pair = nullptr;
    DLSM_RETURN_IF_ERROR(parts_.queue_pairs->ForThisThread(span.node, &queue_pair));
    memory = queue_pair->Direct(span);
    if (memory == nullptr) return Status::IOError("a segment of the log is not mapped");
  } else {
    DLSM_RETURN_IF_ERROR(parts_.queue_pairs->NewBuffer(span.node, span.bytes, &segment.mirror));
    memory = segment.mirror.data();
  }
  const port::MutexLock lock(mutex_);
  segment.number = granted_.load(std::memory_order_relaxed) / config_.segment_bytes;
  EncodeLogSegmentHeader(config_.id, segment.number, memory);
  memory_[segment.number % kLogSegmentsMax].store(memory + kLogSegmentHeaderBytes,
                                                  std::memory_order_release);
  const LogPosition granted = (segment.number + 1) * config_.segment_bytes;
  segments_.push_back(std::move(segment));
  // Release: who sees that it is granted finds its memory.
  granted_.store(granted, std::memory_order_release);
  if (granted - tail() >= wanted_) wanted_ = 0;
  changed_.SignalAll();
  return Status::OK();
}

Status WriteLog::Truncate(LogPosition position) {
  position = std::min(position, mapped_ ? CompleteUpTo() : durable());
  {
    const port::MutexLock lock(mutex_);
    if (position / config_.segment_bytes <= start_ / config_.segment_bytes) return Status::OK();
  }
  // What the database is no longer this handle's for, its taker may be reading.
  if (!IsMine()) return NotMine();
  if (mapped_) DLSM_RETURN_IF_ERROR(PutMarkAndWait(LogMark::kDurable, position));
  DLSM_RETURN_IF_ERROR(Named(PutMarkAndWait(LogMark::kStart, position)));
  const port::MutexLock lock(mutex_);
  start_ = position;
  while (!segments_.empty() && segments_.front().number < position / config_.segment_bytes) {
    leaving_.push_back({segments_.front().span, persists_begun_ + 1});
    segments_.pop_front();
  }
  if (!has_files()) LetGoLocked(persists_begun_ + 1);
  return Status::OK();
}

LogRecord WriteLog::Record(const std::vector<RemoteSpan>& more) const {
  LogRecord record;
  record.id = config_.id;
  record.persistence = config_.persistence;
  record.segment_bytes = config_.segment_bytes;
  record.header = config_.header;
  const port::MutexLock lock(mutex_);
  for (const Segment& segment : segments_) record.segments.push_back(segment.span);
  for (const Leaving& leaving : leaving_) record.segments.push_back(leaving.span);
  record.segments.insert(record.segments.end(), spare_.begin(), spare_.end());
  record.segments.insert(record.segments.end(), more.begin(), more.end());
  return record;
}

void WriteLog::Fail(const Status& why) {
  const port::MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = why;
  failed_.store(true, std::memory_order_release);
  changed_.SignalAll();
}

Status WriteLog::FailureLocked() const { return failure_.ok() ? Status::OK() : Named(failure_); }

Status WriteLog::Named(const Status& status) const {
  if (status.ok() || status.IsIOFenced()) return status;
  return Status::FromCode(
      status.code(), "the log at memory node " + config_.node + ": " + status.message().ToString());
}

std::string WriteLog::Describe() const {
  const LogPosition end = tail();
  const LogPosition durable_now = durable();
  const LogPosition persisted_now = persisted();
  const port::MutexLock lock(mutex_);
  std::string text = fmt::format(
      "node {}\nlevel {}\nmapped {}\nfiles {}\nsegment-bytes {}\nsegments {}\nspare-segments {}\n"
      "start {}\ndurable {}\npersisted {}\nend {}\n",
      config_.node, config_.level == LogLevel::kDisk ? "disk" : "memory", mapped_ ? 1 : 0,
      has_files() ? 1 : 0, config_.segment_bytes, segments_.size(), spare_.size() + leaving_.size(),
      start_, durable_now, persisted_now, end);
  const auto describe = [&text](const char* calls, const char* step, uint64_t count,
                                const Turn& turn) {
    const double mean =
        count == 0 ? 0 : static_cast<double>(turn.served) / static_cast<double>(count);
    text += fmt::format("{} {}\n{}-waits {}\n{}-writers-mean {:.2f}\n{}-writers-max {}\n", calls,
                        count, step, turn.waits, step, mean, step, turn.largest);
  };
  describe("chains", "chain", chains_, turns_[static_cast<size_t>(Step::kPost)]);
  describe("persists", "persist", persists_begun_, turns_[static_cast<size_t>(Step::kPersist)]);
  return text;
}

}  // namespace dlsm
