// Iterators over internal keys: of one shard, and of shards side by side.
#pragma once

#include <memory>
#include <vector>

#include "db/nodes/shard_map.h"
#include "db/tree/read_view.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/table_reader.h"

namespace dlsm {

// All entries of the view, which outlives the iterator, but for those that range tombstones hide
// from a reader at `sequence`.
std::unique_ptr<InternalIterator> NewViewIterator(const InternalKeyComparator& comparator,
                                                  const ReadView& view, SequenceNumber sequence,
                                                  const TableReadOptions& read_options,
                                                  QueuePairs* queue_pairs);

// A shard as an iterator needs it.
struct ShardView {
  std::shared_ptr<const ReadView> view;
  QueuePairs* queue_pairs;
};

// The same for `shards`, the first of which is number `first` in the map. A shard is opened when it
// is reached, and closed when a scan leaves it behind. The seeks that a shard has seen are counted
// in its tables in the end. `map` outlives the iterator.
std::unique_ptr<InternalIterator> NewShardsIterator(const InternalKeyComparator& comparator,
                                                    const ShardMap& map, size_t first,
                                                    std::vector<ShardView> shards,
                                                    SequenceNumber sequence,
                                                    const TableReadOptions& read_options);

}  // namespace dlsm
