// Writes an immutable memtable out as tables of level 0: asynchronously, in key order, index and
// filter built in the same pass. (dLSM section "Asynchronous flush")
#pragma once

#include <functional>
#include <vector>

#include "dLSM/status.h"
#include "db/log/replayed_entries.h"
#include "db/memtable/memtable.h"
#include "db/nodes/placed_memory.h"
#include "db/tree/table_store.h"

namespace dlsm {

struct FlushOutcome {
  std::vector<TableRef> tables;  // As Tree::InstallFlush wants them; none if nothing was left.
  uint64_t bytes = 0;
};

// The memtable is complete. Versions that none of `snapshots` (ascending) sees are left out,
// whether newer versions shadow them or range tombstones of the memtable hide them. `when_full`:
// where the tables go if memory nodes grant nothing.
Status FlushMemtable(const Memtable& memtable, const std::vector<SequenceNumber>& snapshots,
                     const TableStore& store, PlacedMemory::WhenFull when_full,
                     const std::function<uint64_t()>& new_table_number, FlushOutcome* outcome);

// Likewise, entries that were in a log and are not in tables yet. The piece has not been read.
// `tombstones`: those of the log; null: there are none.
Status FlushReplayed(ReplayedEntries::Piece* piece, const RangeTombstones* tombstones,
                     const TableStore& store, PlacedMemory::WhenFull when_full,
                     const std::function<uint64_t()>& new_table_number, FlushOutcome* outcome);

}  // namespace dlsm
