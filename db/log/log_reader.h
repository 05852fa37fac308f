// Reads a log whose owner is gone, from its start mark to the first frame that is not whole.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/log/log_frame.h"
#include "db/log/log_layout.h"
#include "table/table_reader.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// One thread at a time.
class LogReader {
 public:
  struct Result {
    LogPosition start = 0;
    LogPosition end = 0;              // Where the first frame would be that is not whole.
    LogPosition durable = 0;          // What the log says of itself.
    LogPosition persisted = 0;        // Likewise, of the disk.
    LogPosition sealed = UINT64_MAX;  // Nothing from there on counts, see LogMark::kEnd.
    uint64_t frames = 0;              // That are not void.
  };
  // `record` and `queue_pairs` outlive the reader. `present` is the log node's now. `timeout`: of
  // each transfer.
  LogReader(const LogRecord& record, PersistenceId present, QueuePairs* queue_pairs,
            std::chrono::nanoseconds timeout)
      : record_(record),
        memory_is_whole_(record.persistence == present),
        queue_pairs_(queue_pairs),
        timeout_(timeout) {}

  // Calls `apply` with each frame that is not void, in the order of their positions. Its first
  // error ends the reading. Corruption if the log ends before a position up to which it was durable
  // or on disk; after a power failure, only before the one up to which it was on disk.
  //
  // An owner that does not know yet that it is none any more may still put segments to another use
  // that it did not need when it was. Then the log's start has moved on meanwhile, and reading
  // begins again; `begin` is called each time before that.
  Status Read(const std::function<void()>& begin,
              const std::function<Status(const LogFrame&)>& apply, Result* result);
  // Whoever reads the log from now on finds what Read() has found, which was `result`: before any
  // of it gets into a manifest.
  Status Seal(const Result& result);

  // False after a power failure of the log node: what was not on disk may be gone.
  bool memory_is_whole() const { return memory_is_whole_; }

 private:
  Status ReadOnce(const std::function<Status(const LogFrame&)>& apply, Result* result);
  Status ReadHeader(Result* result);
  Status CheckEnd(const Result& result) const;
  Status FindSegments();
  Status Fetch(const RemoteSpan& from, const LocalSpan& to);
  // Takes the frames that end in `bytes`, with which the log goes on. *ended: one is not whole.
  Status TakeFrames(Slice bytes, const std::function<Status(const LogFrame&)>& apply,
                    Result* result, bool* ended);
  Status TakeFrame(const Slice& bytes, const std::function<Status(const LogFrame&)>& apply,
                   Result* result, bool* ended) const;

  const LogRecord& record_;
  const bool memory_is_whole_;
  QueuePairs* const queue_pairs_;
  const std::chrono::nanoseconds timeout_;
  std::map<uint64_t, RemoteSpan> segments_;  // By number.
  std::string cut_off_;  // The begin of a frame that goes on in the next segment.
};

}  // namespace dlsm
