// Fetches index and filter of a table that exists.
#pragma once

#include <string>

#include "dLSM/status.h"
#include "table/table_meta.h"
#include "table/table_reader.h"

namespace dlsm {

// A copy of them, from whichever memory node the table lies on. Of the options, purpose, time-out
// and limits are for this. Corruption if the meta, which may come from another machine, claims more
// than any table has.
Status FetchResident(const TableMeta& meta, QueuePairs* queue_pairs,
                     const TableReadOptions& options, std::string* resident);

}  // namespace dlsm
