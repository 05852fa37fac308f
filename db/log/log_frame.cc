#include "db/log/log_frame.h"

#include <cstring>

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

constexpr size_t kBytesOffset = 4;
constexpr size_t kLogOffset = 8;
constexpr size_t kPositionOffset = 16;
constexpr size_t kFirstOffset = 24;
constexpr size_t kCountOffset = 32;
static_assert(kCountOffset + 4 == kLogFrameHeaderBytes);

// The same limit as Manifest::kLastSequenceMax. Numbers beyond come from damage.
constexpr SequenceNumber kLoggedSequenceMax = (uint64_t{1} << 55) - 1;

char* AppendPrefixed(const Slice& bytes, char* to) {
  to = EncodeVarint32(to, static_cast<uint32_t>(bytes.size()));
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace

uint64_t LogFrameBytesOfOne(ValueType type, const Slice& key, const Slice& value) {
  uint64_t bytes = kLogFrameHeaderBytes + 1 + VarintBytes(key.size()) + key.size();
  if (type != ValueType::kDeletion) bytes += VarintBytes(value.size()) + value.size();
  return bytes;
}

void EncodeLogEntry(ValueType type, const Slice& key, const Slice& value, char* to) {
  *to++ = static_cast<char>(type);
  to = AppendPrefixed(key, to);
  if (type != ValueType::kDeletion) AppendPrefixed(value, to);
}

void SealLogFrame(LogId log, LogPosition position, uint32_t bytes, SequenceNumber first,
                  uint32_t count, char* frame) {
  EncodeFixed32(frame + kBytesOffset, bytes);
  EncodeFixed64(frame + kLogOffset, static_cast<uint64_t>(log));
  EncodeFixed64(frame + kPositionOffset, position);
  EncodeFixed64(frame + kFirstOffset, first);
  EncodeFixed32(frame + kCountOffset, count);
  EncodeFixed32(frame, Crc32c(frame + kBytesOffset, bytes - kBytesOffset));
}

bool PeekLogFrame(LogId log, LogPosition position, const Slice& bytes, uint64_t* frame_bytes) {
  if (bytes.size() < kLogFrameHeaderBytes) return false;
  *frame_bytes = DecodeFixed32(bytes.data() + kBytesOffset);
  return *frame_bytes >= kLogFrameHeaderBytes && *frame_bytes <= kLogFrameBytesMax &&
         DecodeFixed64(bytes.data() + kLogOffset) == static_cast<uint64_t>(log) &&
         DecodeFixed64(bytes.data() + kPositionOffset) == position;
}

bool TakeLogFrame(LogId log, LogPosition position, const Slice& bytes, LogFrame* frame) {
  uint64_t frame_bytes;
  if (!PeekLogFrame(log, position, bytes, &frame_bytes) || bytes.size() < frame_bytes) return false;
  if (DecodeFixed32(bytes.data()) !=
      Crc32c(bytes.data() + kBytesOffset, frame_bytes - kBytesOffset)) {
    return false;
  }
  frame->position = position;
  frame->bytes = static_cast<uint32_t>(frame_bytes);
  frame->first = DecodeFixed64(bytes.data() + kFirstOffset);
  frame->count = DecodeFixed32(bytes.data() + kCountOffset);
  frame->entries = Slice(bytes.data() + kLogFrameHeaderBytes, frame_bytes - kLogFrameHeaderBytes);
  return frame->first <= kLoggedSequenceMax && frame->count <= kLoggedSequenceMax - frame->first;
}

bool LogEntryReader::Next(SequenceNumber* sequence, ValueType* type, Slice* key, Slice* value) {
  if (left_ == 0 || !status_.ok()) return false;
  const uint8_t tag = rest_.empty() ? UINT8_MAX : static_cast<uint8_t>(rest_[0]);
  if (tag <= static_cast<uint8_t>(ValueType::kRangeTombstone)) {
    rest_.remove_prefix(1);
    *type = static_cast<ValueType>(tag);
    value->clear();
    if (GetLengthPrefixed(&rest_, key) &&
        (*type == ValueType::kDeletion || GetLengthPrefixed(&rest_, value))) {
      *sequence = sequence_++;
      --left_;
      return true;
    }
  }
  status_ = Status::Corruption("malformed log", "an entry of a frame is damaged");
  return false;
}

}  // namespace dlsm
