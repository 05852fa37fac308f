#include "db/version.h"

#include <algorithm>
#include <utility>

#include "util/status_macros.h"

namespace dlsm {

std::shared_ptr<const Version> Version::With(const VersionEdit& edit) const {
  std::vector<Level> levels = levels_;
  for (size_t i = 0; i < edit.levels.size(); ++i) {
    const VersionEdit::LevelEdit& changes = edit.levels[i];
    if (changes.removed.empty() && changes.added.empty()) continue;
    std::vector<uint64_t> removed = changes.removed;
    std::sort(removed.begin(), removed.end());
    levels[i] = levels[i].With(comparator_, removed, changes.added);
  }
  return std::make_shared<const Version>(comparator_, std::move(levels));
}

uint64_t Version::bytes() const {
  uint64_t total = 0;
  for (const Level& level : levels_) total += level.bytes();
  return total;
}

size_t Version::table_count() const {
  size_t count = 0;
  for (const Level& level : levels_) count += level.table_count();
  return count;
}

uint64_t Version::entries() const {
  uint64_t count = 0;
  for (const Level& level : levels_) {
    for (const TableRef& table : level.AllTables()) count += table->meta().entries;
  }
  return count;
}

uint64_t Version::metadata_bytes() const {
  uint64_t total = 0;
  for (const Level& level : levels_) {
    for (const TableRef& table : level.AllTables()) total += table->reader().resident_bytes();
  }
  return total;
}

SequenceNumber Version::sequence_max() const {
  SequenceNumber largest = 0;
  for (const Level& level : levels_) {
    for (const TableRef& table : level.AllTables()) {
      largest = std::max(largest, table->meta().sequence_max);
    }
  }
  return largest;
}

Status Version::CheckInvariants() const {
  for (const Level& level : levels_) DLSM_RETURN_IF_ERROR(level.CheckInvariants(comparator_));
  return Status::OK();
}

}  // namespace dlsm
