#include "db/log/log_reader.h"

#include <algorithm>
#include <new>
#include <utility>

#include "db/log/replayed_entries.h"
#include "port/sync_point.h"
#include "util/deadline.h"
#include "util/run_jobs.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// As often as that an owner that is none any more may move the start on, before it notices.
constexpr int kReadingsMax = 8;

constexpr size_t kThreads = 4;

}  // namespace

// A part's turn to be looked through. Without Done(), those behind it find that the log has ended.
class LogReader::Turn {
 public:
  Turn(LogReader* reader, size_t part) : reader_(*reader) {
    const port::MutexLock lock(reader_.mutex_);
    while (reader_.place_.part != part) reader_.looked_through_.Wait();
    place_ = std::move(reader_.place_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    ++place_.part;
    place_.ended |= !done_;
    const port::MutexLock lock(reader_.mutex_);
    reader_.place_ = std::move(place_);
    reader_.looked_through_.SignalAll();
  }

  Place& place() { return place_; }
  void Done() { done_ = true; }

 private:
  LogReader& reader_;
  Place place_;
  bool done_ = false;
};

Status LogReader::Read(const Begin& begin, const Apply& apply, Result* result) {
  for (int reading = 1;; ++reading) {
    *result = Result();
    const Status read = ReadOnce(begin, apply, result);
    Result now;
    DLSM_RETURN_IF_ERROR(ReadHeader(&now));
    if (now.start != result->start) {
      if (reading < kReadingsMax) continue;
      return Status::Busy("the former owner of the log goes on truncating it",
                          "end that process, or open the database again");
    }
    DLSM_RETURN_IF_ERROR(read);
    return CheckEnd(*result);
  }
}

Status LogReader::CheckEnd(const Result& result) const {
  // Where memory is mapped, kDurable is written seldom, and often less than kPersisted. Frames were
  // in memory before they were on disk.
  const LogPosition least =
      memory_is_whole_ ? std::max(result.durable, result.persisted) : result.persisted;
  if (result.end >= std::min(least, result.sealed)) return Status::OK();
  return Status::Corruption(
      "the log is damaged: it ends at position " + std::to_string(result.end) + " and was " +
          (memory_is_whole_ ? "durable" : "on disk") + " up to " + std::to_string(least),
      "what was acknowledged behind that is lost");
}

Status LogReader::ReadOnce(const Begin& begin, const Apply& apply, Result* result) {
  parts_.clear();
  const Status header = ReadHeader(result);
  if (header.ok()) {
    DLSM_RETURN_IF_ERROR(FindSegments());
    port::SyncPoint("log: segments found");
    MakeParts(result->start);
  }
  begin(parts_.size());
  DLSM_RETURN_IF_ERROR(header);
  const Result head = *result;
  const Status read = RunJobs(parts_.size(), kThreads, ReplayedEntries::kNoMemory,
                              [&](size_t number) { return ReadPart(number, head, apply); });
  port::SyncPoint("log: frames read");
  result->end = result->start;
  for (const Part& part : parts_) {
    ++result->parts;
    result->frames += part.count;
    result->end = part.end;
    if (part.ended) break;
  }
  return read;
}

Status LogReader::ReadHeader(Result* result) {
  RegisteredBuffer buffer;
  DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(record_.header.node, kLogHeaderBytes, &buffer));
  const LocalSpan to = buffer.span().Sub(0, kLogHeaderBytes);
  DLSM_RETURN_IF_ERROR(Fetch(record_.header, to));
  const Slice header(to.data, to.bytes);
  DLSM_RETURN_IF_ERROR(DecodeLogMark(record_.id, LogMark::kStart, header, &result->start));
  LogPosition end;
  if (DecodeLogMark(record_.id, LogMark::kEnd, header, &end).ok()) result->sealed = end;
  const Status persisted =
      DecodeLogMark(record_.id, LogMark::kPersisted, header, &result->persisted);
  if (!memory_is_whole_) DLSM_RETURN_IF_ERROR(persisted);
  persisted.PermitUncheckedError();
  return DecodeLogMark(record_.id, LogMark::kDurable, header, &result->durable);
}

// Both turns: a torn write of one leaves the other.
Status LogReader::Seal(const Result& result) {
  if (result.sealed != UINT64_MAX) return Status::OK();
  RegisteredBuffer buffer;
  DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(record_.header.node, kLogMarkBytes, &buffer));
  EncodeLogMark(record_.id, result.end, buffer.data());
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(record_.header.node, &queue_pair));
  Ticket last{};
  for (size_t turn = 0; turn < 2; ++turn) {
    DLSM_RETURN_IF_ERROR(
        queue_pair->PostWrite(buffer.span().Sub(0, kLogMarkBytes),
                              record_.header.Sub(LogMarkOffset(LogMark::kEnd, turn), kLogMarkBytes),
                              Purpose::kLog, &last));
  }
  return queue_pair->Wait(last, Deadline::In(timeout_));
}

// A segment that is recorded and was never used has no header of this log.
Status LogReader::FindSegments() {
  segments_.clear();
  if (record_.segments.empty()) return Status::OK();
  RegisteredBuffer buffer;
  DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(
      record_.header.node, record_.segments.size() * kLogSegmentHeaderBytes, &buffer));
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(record_.header.node, &queue_pair));
  Ticket last{};
  for (size_t i = 0; i < record_.segments.size(); ++i) {
    DLSM_RETURN_IF_ERROR(
        queue_pair->PostRead(record_.segments[i].Sub(0, kLogSegmentHeaderBytes),
                             buffer.span().Sub(i * kLogSegmentHeaderBytes, kLogSegmentHeaderBytes),
                             Purpose::kLog, &last));
  }
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(last, Deadline::In(timeout_)));
  for (size_t i = 0; i < record_.segments.size(); ++i) {
    const Slice header(buffer.data() + i * kLogSegmentHeaderBytes, kLogSegmentHeaderBytes);
    uint64_t number;
    if (DecodeLogSegmentHeader(record_.id, header, &number)) {
      segments_[number] = record_.segments[i];
    }
  }
  return Status::OK();
}

Status LogReader::Fetch(const RemoteSpan& from, const LocalSpan& to) {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(from.node, &queue_pair));
  Ticket ticket{};
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(from, to, Purpose::kLog, &ticket));
  return queue_pair->Wait(ticket, Deadline::In(timeout_));
}

void LogReader::MakeParts(LogPosition start) {
  for (auto segment = segments_.find(start / record_.segment_bytes); segment != segments_.end();
       segment = segments_.find(segment->first + 1)) {
    parts_.emplace_back().segment = segment->second;
  }
  const port::MutexLock lock(mutex_);
  place_ = Place();
  place_.position = start;
}

Status LogReader::ReadPart(size_t number, const Result& header, const Apply& apply) {
  Part& part = parts_[number];
  const uint64_t skipped = number == 0 ? header.start % record_.segment_bytes : 0;
  const uint64_t bytes = record_.segment_bytes - skipped;
  Status fetched;
  try {
    fetched = queue_pairs_->NewBuffer(record_.header.node, bytes, &part.buffer);
    if (fetched.ok()) {
      fetched = Fetch(part.segment.Sub(kLogSegmentHeaderBytes + skipped, bytes),
                      part.buffer.span().Sub(0, bytes));
    }
  } catch (const std::bad_alloc&) {
    // The parts behind it wait for their turn.
    fetched = Status::Busy(ReplayedEntries::kNoMemory);
  }
  {
    Turn turn(this, number);
    part.end = turn.place().position;
    DLSM_RETURN_IF_ERROR(fetched);
    LookThrough(Slice(part.buffer.data(), bytes), header.sealed, &turn.place(), &part);
    turn.Done();
  }
  return TakeFrames(number, apply);
}

void LogReader::LookThrough(Slice bytes, LogPosition sealed, Place* place, Part* part) const {
  part->joined_at = place->position;
  part->ended = place->ended;
  // The first `count` bytes go to what was cut off, or as many as there are.
  const auto go_on = [&](uint64_t count) {
    const uint64_t taken = std::min<uint64_t>(count, bytes.size());
    place->cut_off.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
    return taken == count;
  };
  uint64_t frame_bytes = 0;
  if (!place->ended && !place->cut_off.empty()) {
    if (place->cut_off.size() < kLogFrameHeaderBytes &&
        !go_on(kLogFrameHeaderBytes - place->cut_off.size())) {
      return;
    }
    place->ended = !PeekLogFrame(record_.id, place->position, place->cut_off, &frame_bytes);
    part->ended = place->ended;
    if (place->ended || !go_on(frame_bytes - place->cut_off.size())) return;
    part->joined = std::exchange(place->cut_off, std::string());
    place->position += frame_bytes;
  }
  const char* const begin = bytes.data();
  while (!place->ended) {
    place->ended = place->position >= sealed;
    if (place->ended || bytes.size() < kLogFrameHeaderBytes) break;
    place->ended = !PeekLogFrame(record_.id, place->position, bytes, &frame_bytes);
    if (place->ended || frame_bytes > bytes.size()) break;
    bytes.remove_prefix(frame_bytes);
    place->position += frame_bytes;
  }
  part->frames = Slice(begin, static_cast<size_t>(bytes.data() - begin));
  part->ended = place->ended;
  if (!place->ended) go_on(bytes.size());
}

Status LogReader::TakeFrames(size_t number, const Apply& apply) {
  Part& part = parts_[number];
  part.end = part.joined_at;
  uint64_t frame_bytes = 0;
  if (!part.joined.empty()) {
    DLSM_RETURN_IF_ERROR(TakeFrame(part.joined, number, apply, &frame_bytes));
    if (frame_bytes == 0) return Status::OK();
  }
  for (Slice rest = part.frames; !rest.empty(); rest.remove_prefix(frame_bytes)) {
    DLSM_RETURN_IF_ERROR(TakeFrame(rest, number, apply, &frame_bytes));
    if (frame_bytes == 0) return Status::OK();
  }
  return Status::OK();
}

Status LogReader::TakeFrame(const Slice& bytes, size_t number, const Apply& apply,
                            uint64_t* frame_bytes) {
  Part& part = parts_[number];
  LogFrame frame;
  if (!TakeLogFrame(record_.id, part.end, bytes, &frame)) {
    part.ended = true;
    *frame_bytes = 0;
    return Status::OK();
  }
  *frame_bytes = frame.bytes;
  part.end += frame.bytes;
  if (frame.count == 0) return Status::OK();
  ++part.count;
  Status applied = apply(number, frame);
  part.ended |= !applied.ok();
  return applied;
}

}  // namespace dlsm
