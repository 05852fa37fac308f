// Which memory nodes, besides its home, a shard needs for its tables.
#pragma once

#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/nodes/memory_node_link.h"
#include "db/tree/manifest.h"

namespace dlsm {

// No more fragments than memory nodes, and one where tables are not placed.
Status FitScatterWidth(Options* options);

// Those that tables are on already, as the manifest of the shard says, which is empty for a new
// one; and those that options.placement may put some on. `named` are those of the options.
// InvalidArgument if one that may hold tables is not named.
Status OtherTableNodes(const Options& options, const std::vector<std::string>& named,
                       const std::string& home, const Slice& manifest,
                       std::vector<std::string>* others);

// InvalidArgument, with the remedy, if two memory nodes have one number: a table's place would not
// say on which of them it is.
Status CheckDistinct(const std::vector<const MemoryNodeLink*>& links);

}  // namespace dlsm
