#include "db/log/log_reader.h"

#include <algorithm>
#include <utility>

#include "port/sync_point.h"
#include "util/deadline.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// As often as that an owner that is none any more may move the start on, before it notices.
constexpr int kReadingsMax = 8;

}  // namespace

Status LogReader::Read(const std::function<void()>& begin,
                       const std::function<Status(const LogFrame&)>& apply, Result* result) {
  for (int reading = 1;; ++reading) {
    *result = Result();
    begin();
    const Status read = ReadOnce(apply, result);
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

Status LogReader::ReadOnce(const std::function<Status(const LogFrame&)>& apply, Result* result) {
  DLSM_RETURN_IF_ERROR(ReadHeader(result));
  DLSM_RETURN_IF_ERROR(FindSegments());
  port::SyncPoint("log: segments found");
  result->end = result->start;
  cut_off_.clear();
  RegisteredBuffer buffer;
  DLSM_RETURN_IF_ERROR(
      queue_pairs_->NewBuffer(record_.header.node, record_.segment_bytes, &buffer));
  bool ended = false;
  for (auto segment = segments_.find(result->start / record_.segment_bytes);
       segment != segments_.end() && !ended; segment = segments_.find(segment->first + 1)) {
    const LogPosition begin = segment->first * record_.segment_bytes;
    const uint64_t skipped = result->start > begin ? result->start - begin : 0;
    const uint64_t bytes = record_.segment_bytes - skipped;
    const LocalSpan to = buffer.span().Sub(0, bytes);
    DLSM_RETURN_IF_ERROR(Fetch(segment->second.Sub(kLogSegmentHeaderBytes + skipped, bytes), to));
    DLSM_RETURN_IF_ERROR(TakeFrames(Slice(to.data, bytes), apply, result, &ended));
  }
  return Status::OK();
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

Status LogReader::TakeFrames(Slice bytes, const std::function<Status(const LogFrame&)>& apply,
                             Result* result, bool* ended) {
  // The first `count` bytes go to what was cut off, or as many as there are.
  const auto go_on = [&](uint64_t count) {
    const uint64_t taken = std::min<uint64_t>(count, bytes.size());
    cut_off_.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
    return taken == count;
  };
  while (!*ended) {
    uint64_t frame_bytes = 0;
    *ended = result->end >= result->sealed;
    if (*ended) return Status::OK();
    if (!cut_off_.empty()) {
      if (cut_off_.size() < kLogFrameHeaderBytes &&
          !go_on(kLogFrameHeaderBytes - cut_off_.size())) {
        return Status::OK();
      }
      *ended = !PeekLogFrame(record_.id, result->end, cut_off_, &frame_bytes);
      if (*ended || !go_on(frame_bytes - cut_off_.size())) return Status::OK();
      const std::string frame = std::exchange(cut_off_, std::string());
      DLSM_RETURN_IF_ERROR(TakeFrame(frame, apply, result, ended));
      continue;
    }
    if (bytes.size() >= kLogFrameHeaderBytes) {
      *ended = !PeekLogFrame(record_.id, result->end, bytes, &frame_bytes);
      if (*ended) return Status::OK();
      if (frame_bytes <= bytes.size()) {
        DLSM_RETURN_IF_ERROR(TakeFrame(Slice(bytes.data(), frame_bytes), apply, result, ended));
        bytes.remove_prefix(frame_bytes);
        continue;
      }
    }
    go_on(bytes.size());
    return Status::OK();
  }
  return Status::OK();
}

Status LogReader::TakeFrame(const Slice& bytes, const std::function<Status(const LogFrame&)>& apply,
                            Result* result, bool* ended) const {
  LogFrame frame;
  *ended = !TakeLogFrame(record_.id, result->end, bytes, &frame);
  if (*ended) return Status::OK();
  result->end += frame.bytes;
  if (frame.count == 0) return Status::OK();
  ++result->frames;
  return apply(frame);
}

}  // namespace dlsm
