// dlsm.placement: how the tables of all shards are spread over memory nodes; and
// dlsm.shard-boundaries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "db/handle/shard.h"
#include "db/nodes/memory_node_link.h"
#include "db/nodes/shard_map.h"

namespace dlsm {

// A line for each memory node, then "max/mean" of the bytes on those that tables may be on.
std::string DescribePlacement(const std::vector<std::unique_ptr<MemoryNodeLink>>& links,
                              const std::vector<std::unique_ptr<Shard>>& shards);

// The first key of each shard but the first, a line each, escaped as in a TSV file.
std::string DescribeBoundaries(const ShardMap& map);

}  // namespace dlsm
