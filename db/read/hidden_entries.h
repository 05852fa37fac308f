// Leaves out of a view's entries those that range tombstones hide (table/range_tombstones.h).
#pragma once

#include <memory>

#include "db/tree/read_view.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace dlsm {

// `entries` are the view's, which outlives what is returned; without those that a reader at
// `sequence` does not see because of a tombstone. All writes up to `sequence` have settled. Returns
// `entries` as they are if the view has no tombstones.
std::unique_ptr<InternalIterator> WithoutHidden(const InternalKeyComparator& comparator,
                                                const ReadView& view, SequenceNumber sequence,
                                                std::unique_ptr<InternalIterator> entries);

}  // namespace dlsm
