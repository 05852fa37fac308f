// What a flush or a merge keeps in a table for the sake of snapshots, and when that can go.
//
//   1. Who makes a table counts its keepers: the live snapshots for which something in it may have
//      been kept. Such a snapshot does not see all of the table, and sees a version in it unless
//      what was kept is a deletion.
//   2. Every snapshot yet to come sees all of every table that there is. So a table gets no further
//      keepers, and as soon as it has fewer than it was made with, one of them has been released.
//   3. What that one kept goes when the table is merged, though it be with no other: then it has as
//      many keepers as there still are. So this comes to an end.
//
// Of a table that an earlier handle has made nobody knows its keepers. They are gone: they ended
// with their handle.
#pragma once

#include <cstdint>
#include <vector>

#include "db/tree/table.h"
#include "table/internal_key.h"
#include "table/table_meta.h"

namespace dlsm {

// Of a table that is made while `snapshots` (ascending) live.
uint64_t CountKeepers(const TableMeta& table, const std::vector<SequenceNumber>& snapshots);
// By who has made the tables, before others see them.
void NoteKeepers(const std::vector<TableRef>& tables, const std::vector<SequenceNumber>& snapshots);

// Whether a table may hold what nobody sees any more, though no other table overlaps it and nothing
// older lies anywhere: what snapshots kept that are not among the live ones; and deletions that
// everyone sees, which had something older to hide when they came here.
bool HoldsLeftovers(const Table& table, const std::vector<SequenceNumber>& live);
bool HoldLeftovers(const std::vector<TableRef>& tables, const std::vector<SequenceNumber>& live);

// About what the deletions in them take, and what those hide there.
uint64_t BytesOfDeletions(const std::vector<TableRef>& tables);

}  // namespace dlsm
