// dlsm_tool doctor: checks on either side what makes set-ups fail in the field, and says what to
// do.
#pragma once

#include <string>
#include <vector>

#include "script/tool/finding.h"
#include "util/cluster_config.h"
#include "util/rpc/node_connection.h"

namespace dlsm::tool {

struct DoctorOptions {
  std::vector<HostPort> memory_nodes;  // None: this host alone is checked.
  std::string fabric;                  // The one that must work; empty: whichever does.
  std::string rdma_device;             // Empty: any.
  Credentials credentials;
  std::string root = "/";  // Where proc and sys are; another one in tests.
};

Findings RunDoctor(const DoctorOptions& options);

}  // namespace dlsm::tool
