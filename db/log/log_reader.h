// Reads a log whose owner is gone, from its start mark to the first frame that is not whole.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/log/log_frame.h"
#include "db/log/log_layout.h"
#include "port/mutex.h"
#include "table/table_reader.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// One thread at a time. It reads with several threads: each fetches a segment. Where the frames of
// a segment begin is known when those of the segment before have been looked through, by the sizes
// in their headers alone, which is quick. Then the thread checks its frames' checksums, and has
// their entries taken.
class LogReader {
 public:
  struct Result {
    LogPosition start = 0;
    LogPosition end = 0;              // Where the first frame would be that is not whole.
    LogPosition durable = 0;          // What the log says of itself.
    LogPosition persisted = 0;        // Likewise, of the disk.
    LogPosition sealed = UINT64_MAX;  // Nothing from there on counts, see LogMark::kEnd.
    uint64_t frames = 0;              // That are not void.
    size_t parts = 0;                 // Frames of these count, and none of others.
  };
  // `count`: so many segments, at most, are to be read.
  using Begin = std::function<void(size_t count)>;
  // A frame that is not void, of the part with this number, which is below `count`.
  using Apply = std::function<Status(size_t part, const LogFrame& frame)>;

  // `queue_pairs` outlive the reader. `present` is the log node's now. `timeout`: of
  // each transfer.
  LogReader(LogRecord record, PersistenceId present, QueuePairs* queue_pairs,
            std::chrono::nanoseconds timeout)
      : record_(std::move(record)),
        memory_is_whole_(record_.persistence == present),
        queue_pairs_(queue_pairs),
        timeout_(timeout),
        looked_through_(mutex_) {}

  // Calls `apply` with frames that are not void: with those of one part in the order of their
  // positions, in one thread, with parts side by side. A frame before the end of the log is in a
  // part below result->parts; of such parts no other frame is applied. An error of `apply` ends the
  // reading. Slices of frames stay valid as long as the reader, or until `begin` is called again.
  //
  // Corruption if the log ends before a position up to which it was durable or on disk; after a
  // power failure, only before the one up to which it was on disk.
  //
  // An owner that does not know yet that it is none any more may still put segments to another use
  // that it did not need when it was. Then the log's start has moved on meanwhile, and reading
  // begins again; `begin` is called each time before that.
  Status Read(const Begin& begin, const Apply& apply, Result* result);
  // Whoever reads the log from now on finds what Read() has found, which was `result`: before any
  // of it gets into a manifest.
  Status Seal(const Result& result);

  // False after a power failure of the log node: what was not on disk may be gone.
  bool memory_is_whole() const { return memory_is_whole_; }

 private:
  class Turn;
  // What one thread reads: the frames that end in one segment.
  struct Part {
    RemoteSpan segment;
    RegisteredBuffer buffer;
    // A frame that begins in an earlier segment and ends in this one.
    std::string joined;
    LogPosition joined_at = 0;
    // The frames that are all in this one.
    Slice frames;
    LogPosition end = 0;  // Behind the last frame that is whole.
    bool ended = true;    // The log ends there.
    uint64_t count = 0;   // Of frames that are not void.
  };
  // How far the looking through has come.
  struct Place {
    size_t part = 0;  // Whose turn it is.
    LogPosition position = 0;
    std::string cut_off;  // The begin of a frame that goes on in the next segment.
    bool ended = false;
  };

  Status ReadOnce(const Begin& begin, const Apply& apply, Result* result);
  Status ReadHeader(Result* result);
  Status CheckEnd(const Result& result) const;
  Status FindSegments();
  Status Fetch(const RemoteSpan& from, const LocalSpan& to);
  // The parts from `start` on.
  void MakeParts(LogPosition start);
  Status ReadPart(size_t number, const Result& header, const Apply& apply);
  // Finds the frames of a part that was fetched, when all before it have theirs.
  void LookThrough(Slice bytes, LogPosition sealed, Place* place, Part* part) const;
  Status TakeFrames(size_t number, const Apply& apply);
  // The frame at part.end, with which `bytes` begin, if it is whole.
  Status TakeFrame(const Slice& bytes, size_t number, const Apply& apply, uint64_t* frame_bytes);

  const LogRecord record_;
  const bool memory_is_whole_;
  QueuePairs* const queue_pairs_;
  const std::chrono::nanoseconds timeout_;
  std::map<uint64_t, RemoteSpan> segments_;  // By number.
  std::vector<Part> parts_;
  port::Mutex mutex_;
  port::CondVar looked_through_;
  Place place_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
