#include "table/table_reader.h"

#include "util/status_macros.h"

namespace dlsm {

Status TableReadOptions::CheckDeadline() const {
  if (Deadline::Clock::now() < deadline) return Status::OK();
  return Status::TimedOut("the deadline of the read has passed", "give it more time");
}

Status TableReadOptions::CheckTransfer() const {
  if (local) {
    return Status::Incomplete("this read asks only for what needs no round trip",
                              "read with read_tier kReadAllTier");
  }
  return CheckDeadline();
}

Status QueuePairs::ForLimitedRead(NodeId node, const TableReadOptions& options,
                                  QueuePair** queue_pair) {
  DLSM_RETURN_IF_ERROR(options.CheckTransfer());
  return ForThisThread(node, queue_pair);
}

// Both bounds are rounded down, which is the least error where both are uncertain. Where that
// leaves nothing, what may lie between them counts.
uint64_t TableReader::ApproximateBytes(const Slice& start, const Slice& limit) const {
  const OffsetBounds from = BoundOffset(start);
  const OffsetBounds to = BoundOffset(limit);
  if (to.least > from.least) return to.least - from.least;
  return to.most > from.least ? to.most - from.least : 0;
}

}  // namespace dlsm
