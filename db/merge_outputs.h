// What a memory node says that it has made of a merge, before anything of it is believed.
#pragma once

#include <vector>

#include "dLSM/status.h"
#include "db/table.h"
#include "table/internal_key.h"
#include "table/merge_tables.h"
#include "table/table_meta.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// Corruption unless `outputs` can be those of merging `inputs` with `options` on `node`: tables
// there, ascending without overlap, within the merge's range, of no other versions than it was
// given. So whatever a memory node answers, the order of versions and levels stays whole.
Status CheckMergeOutputs(const InternalKeyComparator& comparator, const MergeOptions& options,
                         const std::vector<std::vector<TableRef>>& inputs, NodeId node,
                         const std::vector<TableMeta>& outputs);

}  // namespace dlsm
