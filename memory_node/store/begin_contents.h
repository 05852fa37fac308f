// Whether a process that opens a memory node's files goes on where the last one ended.
#pragma once

#include <cstdint>
#include <string>

#include "dLSM/status.h"
#include "memory_node/store/stored_state.h"

namespace dlsm {

struct BeginOptions {
  uint64_t capacity_bytes = 0;  // Of the region, from now on.
  std::string machine_boot;     // Of the kernel; empty if it does not tell.
  bool clients_outlive = true;  // Clients of the process before may still be there.
  bool made = false;            // The files are new, and have no contents.
};

// *contents: what the files have; and then, what they are to have when they have the first rows of
// this process. *resumed: nothing of the memory
// can have been lost since, and sessions go on, so the boot is still the same.
Status BeginContents(const BeginOptions& options, StoredContents* contents, bool* resumed);

}  // namespace dlsm
