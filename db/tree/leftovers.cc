#include "db/tree/leftovers.h"

#include <algorithm>

namespace dlsm {

uint64_t CountKeepers(const TableMeta& table, const std::vector<SequenceNumber>& snapshots) {
  const auto end = std::lower_bound(snapshots.begin(), snapshots.end(), table.sequence_max);
  const auto begin = table.deletions > 0
                         ? snapshots.begin()
                         : std::lower_bound(snapshots.begin(), end, table.sequence_min);
  return static_cast<uint64_t>(end - begin);
}

void NoteKeepers(const std::vector<TableRef>& tables,
                 const std::vector<SequenceNumber>& snapshots) {
  for (const TableRef& table : tables) table->SetKeepers(CountKeepers(table->meta(), snapshots));
}

bool HoldsLeftovers(const Table& table, const std::vector<SequenceNumber>& live) {
  const uint64_t keepers = CountKeepers(table.meta(), live);
  // A merge applies a tombstone that every snapshot sees.
  const SequenceNumber hidden_below = table.hidden_below();
  if (hidden_below > 0 && (live.empty() || live.front() >= hidden_below)) return true;
  return keepers < table.keepers() || (keepers == 0 && table.meta().deletions > 0);
}

bool HoldLeftovers(const std::vector<TableRef>& tables, const std::vector<SequenceNumber>& live) {
  return std::any_of(tables.begin(), tables.end(),
                     [&live](const TableRef& table) { return HoldsLeftovers(*table, live); });
}

uint64_t BytesOfDeletions(const std::vector<TableRef>& tables) {
  uint64_t bytes = 0;
  for (const TableRef& table : tables) {
    const TableMeta& meta = table->meta();
    const uint64_t entries = std::max<uint64_t>(meta.entries, 1);
    bytes += meta.image.bytes / entries * std::min(entries, 2 * meta.deletions);
  }
  return bytes;
}

}  // namespace dlsm
