// dlsm.placement: how the tables of all shards are spread over memory nodes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "db/handle/shard.h"
#include "db/nodes/memory_node_link.h"

namespace dlsm {

// A line for each memory node, then "max/mean" of the bytes on those that tables may be on.
std::string DescribePlacement(const std::vector<std::unique_ptr<MemoryNodeLink>>& links,
                              const std::vector<std::unique_ptr<Shard>>& shards);

}  // namespace dlsm
