// Turns internal entries into what a user sees at a snapshot: of each user key the newest visible
// version, and nothing where that is a deletion.
#pragma once

#include <memory>
#include <string>

#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/statistics.h"
#include "db/read/iterator_bounds.h"
#include "db/tree/table.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace dlsm {

struct DbIteratorOptions {
  SequenceNumber sequence = kSequenceNumberMax;
  // May be null. The iterators below may have been told where they are.
  std::shared_ptr<IteratorBounds> bounds;
  // Told in the end how many seeks there were; what keeps the entries keeps it. May be null.
  const Table* counts_seeks = nullptr;
};

// `entries` is over internal keys; `holder` keeps alive what they lie in.
std::unique_ptr<Iterator> NewDbIterator(const InternalKeyComparator& comparator,
                                        std::unique_ptr<InternalIterator> entries,
                                        const DbIteratorOptions& options,
                                        std::shared_ptr<const void> holder,
                                        std::shared_ptr<Statistics> statistics);

}  // namespace dlsm
