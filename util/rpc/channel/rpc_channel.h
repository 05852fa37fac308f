// One connection of a client to a memory node, after its hello, by whatever transport.
#pragma once

#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/channel/rpc_counts.h"

namespace dlsm {

// Thread-safe. Fails once, and then every call fails with the same error. No Call() may be under
// way when it is destroyed.
class RpcChannel {
 public:
  virtual ~RpcChannel() = default;
  // As RpcClient::Call(), without making a lost connection again.
  virtual Status Call(Method method, const Slice& request, std::string* reply,
                      Deadline deadline) = 0;
  virtual bool failed() = 0;
  // Of an RDMA device; zero where there is none.
  virtual RpcCounts counts() { return {}; }
};

}  // namespace dlsm
