// What a merge is said to have made, before anything of it is believed: by a memory node, or by
// what this process has read from its memory.
#pragma once

#include <optional>
#include <vector>

#include "dLSM/status.h"
#include "db/tree/table.h"
#include "table/internal_key.h"
#include "table/merge_tables.h"
#include "table/table_meta.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// Corruption unless `outputs` can be those of merging `inputs` with `options`: tables on `node`, if
// that is given, ascending without overlap, within the range of the merge and of its inputs, none
// on both sides of a cut point, of no other versions than it was given. So whatever a memory node
// answers, and whatever its memory holds, the order of versions and levels stays whole.
Status CheckMergeOutputs(const InternalKeyComparator& comparator, const MergeOptions& options,
                         const std::vector<std::vector<TableRef>>& inputs,
                         std::optional<NodeId> node, const std::vector<TableMeta>& outputs);

}  // namespace dlsm
