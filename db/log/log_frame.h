// Frames: what a log consists of.
//
// A write is one frame, however many shards it goes to. So it is recovered as a whole or not at
// all.
//
//   | CRC32C 4 | bytes 4 | log id 8 | position 8 | first sequence number 8 | count 4 | entries |
//
// The checksum covers all that follows it. `bytes` is the size of the whole frame. A frame without
// entries is void: its write was given up. Entries are those of a WriteBatch: the type (1 byte),
// the key, and the value unless it is a deletion. Keys and values are length-prefixed.
//
// Positions count the bytes of the log from 0 on. Segments are used again without being cleared, so
// a frame is believed only if its id and its position are those that the reader looks for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/internal_key.h"

namespace dlsm {

// Drawn at random for each log.
enum class LogId : uint64_t {};

using LogPosition = uint64_t;
// No log gets so far. Positions beyond come from damage.
inline constexpr LogPosition kLogPositionMax = LogPosition{1} << 62;

inline constexpr size_t kLogFrameHeaderBytes = 36;
// A batch has at most 4 GiB of entries; of these a log takes less.
inline constexpr uint64_t kLogFrameBytesMax = uint64_t{1} << 31;

struct LogFrame {
  LogPosition position = 0;
  uint32_t bytes = 0;
  SequenceNumber first = 0;
  uint32_t count = 0;
  Slice entries;

  SequenceNumber last() const { return first + count - 1; }
};

// The bytes of the frame of one entry.
uint64_t LogFrameBytesOfOne(ValueType type, const Slice& key, const Slice& value);
// The bytes of the frame of these entries.
inline uint64_t LogFrameBytesOf(const Slice& entries) {
  return kLogFrameHeaderBytes + entries.size();
}

// Writes an entry where the frame has its entries.
void EncodeLogEntry(ValueType type, const Slice& key, const Slice& value, char* to);
// Writes the header of the frame whose entries are in their place behind it.
void SealLogFrame(LogId log, LogPosition position, uint32_t bytes, SequenceNumber first,
                  uint32_t count, char* frame);

// Whether the frame of `log` at `position` begins in `bytes`, as far as its header tells. False too
// if there are too few bytes for a header. *frame_bytes: how many bytes the frame says it has, at
// least those of its header.
bool PeekLogFrame(LogId log, LogPosition position, const Slice& bytes, uint64_t* frame_bytes);
// The whole frame of `log` at `position`, with which `bytes` begins. False if it is torn: there are
// too few bytes, or they are not what was written. `frame->entries` points into `bytes`.
bool TakeLogFrame(LogId log, LogPosition position, const Slice& bytes, LogFrame* frame);

// Reads the entries of a frame one by one.
class LogEntryReader {
 public:
  explicit LogEntryReader(const LogFrame& frame)
      : rest_(frame.entries), left_(frame.count), sequence_(frame.first) {}

  // Returns false at the end, and if the entries are damaged: see status().
  bool Next(SequenceNumber* sequence, ValueType* type, Slice* key, Slice* value);
  Status status() const { return status_; }

 private:
  Slice rest_;
  uint32_t left_;
  SequenceNumber sequence_;
  Status status_;
};

// Calls `use` with number, type, key and value of each entry of the frame, and returns its first
// error. Corruption if the entries are damaged.
template <typename Use>
Status ForEachEntry(const LogFrame& frame, Use use) {
  LogEntryReader entries(frame);
  SequenceNumber sequence;
  ValueType type;
  Slice key;
  Slice value;
  while (entries.Next(&sequence, &type, &key, &value)) {
    Status used = use(sequence, type, key, value);
    if (!used.ok()) return used;
  }
  return entries.status();
}

}  // namespace dlsm
