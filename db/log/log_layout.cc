#include "db/log/log_layout.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status Malformed(const char* why) { return Status::Corruption("malformed record of a log", why); }

void AppendSpan(const RemoteSpan& span, std::string* to) {
  PutVarint32(to, static_cast<uint32_t>(span.node));
  PutVarint32(to, static_cast<uint32_t>(span.region));
  PutVarint64(to, span.offset);
}

bool TakeSpan(Slice* from, uint64_t bytes, RemoteSpan* span) {
  uint32_t node;
  uint32_t region;
  if (!GetVarint32(from, &node) || !GetVarint32(from, &region) ||
      !GetVarint64(from, &span->offset)) {
    return false;
  }
  span->node = static_cast<NodeId>(node);
  span->region = static_cast<RegionId>(region);
  span->bytes = bytes;
  return span->offset <= UINT64_MAX - bytes;
}

// fixed64 value, fixed64 log id, fixed32 CRC32C of both: of a mark and of a segment's header.
constexpr size_t kSumOffset = 16;

void EncodeSummed(LogId log, uint64_t value, char* to) {
  EncodeFixed64(to, value);
  EncodeFixed64(to + 8, static_cast<uint64_t>(log));
  EncodeFixed32(to + kSumOffset, Crc32c(to, kSumOffset));
}

std::optional<uint64_t> DecodeSummed(LogId log, const char* from) {
  if (DecodeFixed64(from + 8) != static_cast<uint64_t>(log) ||
      DecodeFixed32(from + kSumOffset) != Crc32c(from, kSumOffset)) {
    return std::nullopt;
  }
  return DecodeFixed64(from);
}

}  // namespace

std::vector<RemoteSpan> LogRecord::Spans() const {
  std::vector<RemoteSpan> spans = segments;
  spans.push_back(header);
  return spans;
}

void LogRecord::AppendTo(std::string* to) const {
  PutFixed64(to, static_cast<uint64_t>(id));
  PutFixed64(to, static_cast<uint64_t>(persistence));
  PutVarint64(to, segment_bytes);
  AppendSpan(header, to);
  PutVarint32(to, static_cast<uint32_t>(segments.size()));
  for (const RemoteSpan& segment : segments) AppendSpan(segment, to);
}

Status LogRecord::Take(Slice* from, LogRecord* record) {
  uint64_t id;
  uint64_t persistence_number;
  uint32_t count;
  if (!GetFixed64(from, &id) || !GetFixed64(from, &persistence_number) ||
      !GetVarint64(from, &record->segment_bytes) ||
      !TakeSpan(from, kLogHeaderBytes, &record->header) || !GetVarint32(from, &count)) {
    return Malformed("it is cut off");
  }
  if (record->segment_bytes < kLogFrameHeaderBytes || record->segment_bytes > kLogSegmentBytesMax ||
      count > kLogSegmentsMax) {
    return Malformed("its segments are too large, too small or too many");
  }
  record->id = static_cast<LogId>(id);
  record->persistence = PersistenceId{persistence_number};
  record->segments.clear();
  for (uint32_t i = 0; i < count; ++i) {
    RemoteSpan span;
    if (!TakeSpan(from, kLogSegmentHeaderBytes + record->segment_bytes, &span)) {
      return Malformed("a segment is cut off");
    }
    record->segments.push_back(span);
  }
  return Status::OK();
}

void EncodeLogSegmentHeader(LogId log, uint64_t number, char* to) {
  std::memset(to, 0, kLogSegmentHeaderBytes);
  EncodeSummed(log, number, to);
}

bool DecodeLogSegmentHeader(LogId log, const Slice& bytes, uint64_t* number) {
  if (bytes.size() < kLogSegmentHeaderBytes) return false;
  const std::optional<uint64_t> value = DecodeSummed(log, bytes.data());
  // So that the positions of the segment are those of a log.
  if (!value.has_value() || *value > kLogPositionMax / kLogSegmentBytesMax) return false;
  *number = *value;
  return true;
}

void EncodeLogMark(LogId log, LogPosition value, char* to) {
  std::memset(to, 0, kLogMarkBytes);
  EncodeSummed(log, value, to);
}

Status DecodeLogMark(LogId log, LogMark mark, const Slice& header, LogPosition* value) {
  std::optional<LogPosition> latest;
  for (size_t turn = 0; turn < 2; ++turn) {
    const size_t offset = LogMarkOffset(mark, turn);
    if (header.size() < offset + kLogMarkBytes) break;
    const std::optional<LogPosition> found = DecodeSummed(log, header.data() + offset);
    if (found.has_value() && *found <= kLogPositionMax)
      latest = std::max(latest.value_or(0), *found);
  }
  if (!latest.has_value()) {
    return Status::Corruption("the header of a log is damaged", "it has no valid mark");
  }
  *value = *latest;
  return Status::OK();
}

}  // namespace dlsm
