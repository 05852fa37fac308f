// The RDMA devices of this host as the kernel shows them in sysfs: no RDMA library is needed.
#pragma once

#include <string>

#include "script/tool/finding.h"

namespace dlsm::tool {

// `root` is "/" but for tests. `wanted`: the device that is to be used; empty: any. With
// `required` a missing or unusable device is kBad, otherwise a kNote: other fabrics remain.
Findings CheckRdmaDevices(const std::string& root, const std::string& wanted, bool required);

// Whether the libraries are there that the verbs fabric loads.
Finding CheckRdmaLibraries(bool required);

}  // namespace dlsm::tool
