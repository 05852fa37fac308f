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

// Parses the record at the start of [from, limit). False if there is none: the bytes are hostile
// until proven otherwise. Does not look at the checksum, so that a read may skip it.
inline bool ParseRecord(const char* from, const char* limit, Record* record) {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  const char* at = DecodeVarint32(from, limit, &key_bytes);
  if (at == nullptr) [[unlikely]]
    return false;
  at = DecodeVarint32(at, limit, &value_bytes);
  if (at == nullptr) [[unlikely]]
    return false;
  const uint64_t rest = uint64_t{key_bytes} + value_bytes + kChecksumBytes;
  if (rest > static_cast<uint64_t>(limit - at)) [[unlikely]]
    return false;
  record->internal_key = Slice(at, key_bytes);
  record->value = Slice(at + key_bytes, value_bytes);
  record->encoded = Slice(from, static_cast<size_t>(at - from) + rest);
  return IsValidInternalKey(record->internal_key);
}

// Whether the checksum of a parsed record is right.
inline bool VerifyRecord(const Record& record) {
  const size_t covered = record.encoded.size() - kChecksumBytes;
  return Crc32c(record.encoded.data(), covered) == DecodeFixed32(record.encoded.data() + covered);
}

}  // namespace dlsm
