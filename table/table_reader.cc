#include "table/table_reader.h"

namespace dlsm {

// Both bounds are rounded down, which is the least error where both are uncertain. Where that
// leaves nothing, what may lie between them counts.
uint64_t TableReader::ApproximateBytes(const Slice& start, const Slice& limit) const {
  const OffsetBounds from = BoundOffset(start);
  const OffsetBounds to = BoundOffset(limit);
  if (to.least > from.least) return to.least - from.least;
  return to.most > from.least ? to.most - from.least : 0;
}

}  // namespace dlsm
