#include "table/table_sink.h"

#include <algorithm>

#include "util/status_macros.h"

namespace dlsm {

Status TableSink::AppendAcrossWindows(const Slice& bytes) {
  Slice rest = bytes;
  for (;;) {
    const size_t count = std::min(rest.size(), static_cast<size_t>(limit_ - cursor_));
    if (count != 0) std::memcpy(cursor_, rest.data(), count);
    Commit(count);
    rest.remove_prefix(count);
    if (rest.empty()) return Status::OK();
    DLSM_RETURN_IF_ERROR(NextWindow());
  }
}

Status MemorySink::NextWindow() {
  return Status::IOError("a table does not fit in the memory that was allocated for it",
                         std::to_string(capacity_) + " bytes");
}

}  // namespace dlsm
