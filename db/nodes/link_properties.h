// Properties of a handle's links to memory nodes: of an owner's and of a follower's.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dlsm {

class MemoryNodeLink;
using Links = std::vector<MemoryNodeLink*>;

// The texts of all memory nodes; each begins with its name if there are several.
std::string ForEachNode(const Links& links,
                        const std::function<std::string(MemoryNodeLink&)>& of_node);

// False if `property`, "dlsm...", is none of these: wire, waits, rpc, fabric, memory-node,
// remote-cpu-micros; or if a memory node that has a part in the last one does not answer.
bool GetLinkProperty(const Links& links, const std::string& property, std::string* value);

}  // namespace dlsm
