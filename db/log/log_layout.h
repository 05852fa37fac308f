// Where a log lies in the memory of its log node, and how a reader finds its way.
//
//   header    256 bytes: four marks, each in two turns that are written alternately. A torn write
//             leaves the value before.
//   segments  each a segment header of 64 bytes and then `segment_bytes` of the log
//
// Segment n has the positions from n * segment_bytes on. A segment that is no longer needed is used
// again under another number; its header then has that number. So the record of the log, which is
// in the manifest of the first shard, only changes when the log gets another piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/log/log_frame.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

inline constexpr size_t kLogSegmentHeaderBytes = 64;
inline constexpr size_t kLogHeaderBytes = 256;
inline constexpr size_t kLogMarkBytes = 24;
inline constexpr size_t kLogSegmentsMax = 1024;
inline constexpr uint64_t kLogSegmentBytesMax = uint64_t{1} << 30;

// A value in the log's header.
enum class LogMark : uint8_t {
  kStart = 0,  // A reader begins here. A frame begins at this position.
  kDurable,    // The log was durable up to here: a log that ends before has been damaged.
  // A reader stops here. A handle that has taken the database over sets it when it has read the
  // log, because the owner before may not know yet that it is none any more, and may go on writing.
  kEnd,
  // The log was on disk up to here, as far as it is needed. After a power failure this counts
  // instead of kDurable. The mark itself reaches the disk with a later persist, so it says less
  // than what is there.
  kPersisted,
};
inline constexpr size_t kLogMarkCount = 4;

// What the manifest says of a log.
//
//   fixed64 id, fixed64 persistence id, varint64 segment bytes, header, varint32 segment count,
//   segments each span: varint32 node, varint32 region, varint64 offset
struct LogRecord {
  LogId id{};
  PersistenceId persistence{};  // Of the memory that the log was written into.
  uint64_t segment_bytes = 0;
  RemoteSpan header;
  std::vector<RemoteSpan> segments;

  // The memory that the log has.
  std::vector<RemoteSpan> Spans() const;
  void AppendTo(std::string* to) const;
  // Takes a record from the front of `from`, which comes from another machine.
  static Status Take(Slice* from, LogRecord* record);

  friend bool operator==(const LogRecord&, const LogRecord&) = default;
};

// `to` has kLogSegmentHeaderBytes.
void EncodeLogSegmentHeader(LogId log, uint64_t number, char* to);
// False if `bytes` are not the header of a segment of this log.
bool DecodeLogSegmentHeader(LogId log, const Slice& bytes, uint64_t* number);

// Where turn `turn` (0 or 1) of a mark lies in the header.
inline constexpr size_t kLogMarkTurnBytes = 32;
constexpr size_t LogMarkOffset(LogMark mark, size_t turn) {
  return (static_cast<size_t>(mark) * 2 + turn) * kLogMarkTurnBytes;
}
static_assert(kLogMarkCount * 2 * kLogMarkTurnBytes <= kLogHeaderBytes);
// `to` has kLogMarkBytes.
void EncodeLogMark(LogId log, LogPosition value, char* to);
// The later of the two turns of `mark` in a log's header. Corruption if there is none.
Status DecodeLogMark(LogId log, LogMark mark, const Slice& header, LogPosition* value);

}  // namespace dlsm
