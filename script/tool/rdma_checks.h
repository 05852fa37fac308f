// Whether this host can use RDMA.
#pragma once

#include <string>

#include "script/tool/finding.h"

namespace dlsm::tool {

// All devices and ports as the kernel shows them in sysfs, which needs no RDMA library. `root` is
// "/" but for tests. What is not usable is a kNote: another port may be.
Findings CheckRdmaPorts(const std::string& root);

// Opens the device as the verbs fabric would. `device` is as in Options::rdma_device. `required`:
// it is kBad if that fails, otherwise other fabrics remain.
Finding CheckRdmaDevice(const std::string& device, bool required);

// Whether the RDMA connection manager can be used. It is kBad if not, and `device` needs it, and
// that is `required`.
Finding CheckConnectionManager(const std::string& root, const std::string& device, bool required);

}  // namespace dlsm::tool
