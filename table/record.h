// A record of a byte-addressable table:
//
//   | internal key bytes: varint32 | value bytes: varint32 | internal key | value | CRC32C: 4 |
//
// The checksum covers all that is before it. Records lie back to back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/internal_key.h"
#include "table/table_sink.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {

inline constexpr size_t kChecksumBytes = 4;

struct Record {
  Slice encoded;  // All of it; the other two point into it.
  Slice internal_key;
  Slice value;
};

inline uint64_t RecordBytes(uint64_t internal_key_bytes, uint64_t value_bytes) {
  return VarintBytes(internal_key_bytes) + VarintBytes(value_bytes) + internal_key_bytes +
         value_bytes + kChecksumBytes;
}

// Appends one record to the image; both sizes fit in 32 bits.
Status AppendRecord(const Slice& internal_key, const Slice& value, TableSink* sink);

// ParseRecord(), of lengths of any size.
bool ParseRecordSlow(const char* from, const char* limit, Record* record);

// The part of it that comes behind the two lengths, at `body`.
inline bool ParseRecordBody(const char* from, const char* body, const char* limit,
                            uint32_t key_bytes, uint32_t value_bytes, Record* record) {
  const uint64_t rest = uint64_t{key_bytes} + value_bytes + kChecksumBytes;
  if (rest > static_cast<uint64_t>(limit - body)) [[unlikely]]
    return false;
  record->internal_key = Slice(body, key_bytes);
  record->value = Slice(body + key_bytes, value_bytes);
  record->encoded = Slice(from, static_cast<size_t>(body - from) + rest);
  return IsValidInternalKey(record->internal_key);
}

// Parses the record at the start of [from, limit). False if there is none: the bytes are hostile
// until proven otherwise. Does not look at the checksum, so that a read may skip it. The usual
// lengths, a key's of one byte and a value's of one or two, are decoded in registers.
inline bool ParseRecord(const char* from, const char* limit, Record* record) {
  constexpr ptrdiff_t kUsualLengthBytes = 3;
  if (limit - from < kUsualLengthBytes) [[unlikely]]
    return ParseRecordSlow(from, limit, record);
  const uint32_t key_bytes = static_cast<unsigned char>(from[0]);
  uint32_t value_bytes = static_cast<unsigned char>(from[1]);
  const char* body = from + 2;
  if (value_bytes >= 0x80) {
    const uint32_t high = static_cast<unsigned char>(from[2]);
    if (high >= 0x80) [[unlikely]]
      return ParseRecordSlow(from, limit, record);
    value_bytes = (value_bytes & 0x7f) | high << 7;
    ++body;
  }
  if (key_bytes >= 0x80) [[unlikely]]
    return ParseRecordSlow(from, limit, record);
  return ParseRecordBody(from, body, limit, key_bytes, value_bytes, record);
}

// Whether the checksum of a parsed record is right.
inline bool VerifyRecord(const Record& record) {
  const size_t covered = record.encoded.size() - kChecksumBytes;
  return Crc32c(record.encoded.data(), covered) == DecodeFixed32(record.encoded.data() + covered);
}

}  // namespace dlsm
