#include "table/record.h"

#include <cassert>
#include <limits>

#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kHeaderBytesMax = 2 * kVarint32BytesMax;

char* EncodeHeader(const Slice& internal_key, const Slice& value, char* to) {
  to = EncodeVarint32(to, static_cast<uint32_t>(internal_key.size()));
  return EncodeVarint32(to, static_cast<uint32_t>(value.size()));
}

char* Copy(const Slice& bytes, char* to) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

// For records that do not fit in what is left of the sink's window.
Status AppendInPieces(const Slice& internal_key, const Slice& value, TableSink* sink) {
  char header[kHeaderBytesMax];
  const Slice header_bytes(header,
                           static_cast<size_t>(EncodeHeader(internal_key, value, header) - header));
  uint32_t crc = Crc32c(header_bytes);
  crc = Crc32cExtend(crc, internal_key.data(), internal_key.size());
  crc = Crc32cExtend(crc, value.data(), value.size());
  char checksum[kChecksumBytes];
  EncodeFixed32(checksum, crc);
  DLSM_RETURN_IF_ERROR(sink->Append(header_bytes));
  DLSM_RETURN_IF_ERROR(sink->Append(internal_key));
  DLSM_RETURN_IF_ERROR(sink->Append(value));
  return sink->Append(Slice(checksum, kChecksumBytes));
}

}  // namespace

Status AppendRecord(const Slice& internal_key, const Slice& value, TableSink* sink) {
  assert(IsValidInternalKey(internal_key));
  assert(internal_key.size() <= std::numeric_limits<uint32_t>::max());
  assert(value.size() <= std::numeric_limits<uint32_t>::max());
  const uint64_t bytes = RecordBytes(internal_key.size(), value.size());
  char* const start = sink->Reserve(bytes);
  if (start == nullptr) [[unlikely]]
    return AppendInPieces(internal_key, value, sink);
  char* at = EncodeHeader(internal_key, value, start);
  at = Copy(internal_key, at);
  at = Copy(value, at);
  EncodeFixed32(at, Crc32c(start, static_cast<size_t>(at - start)));
  sink->Commit(bytes);
  return Status::OK();
}

bool ParseRecordSlow(const char* from, const char* limit, Record* record) {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  const char* at = DecodeVarint32(from, limit, &key_bytes);
  if (at == nullptr) return false;
  at = DecodeVarint32(at, limit, &value_bytes);
  if (at == nullptr) return false;
  return ParseRecordBody(from, at, limit, key_bytes, value_bytes, record);
}

}  // namespace dlsm
