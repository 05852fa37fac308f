// What one end of a connection for calls had its device do.
#pragma once

#include <cstdint>

namespace dlsm {

struct RpcCounts {
  uint64_t work_requests = 0;  // Sends, writes and reads; and receives posted.
  uint64_t doorbells = 0;      // Calls that posted any of them.
  uint64_t completions = 0;
  uint64_t sleeps = 0;  // Waits in the kernel.
};

}  // namespace dlsm
