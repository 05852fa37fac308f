// Calls to a memory node in this process: the same encoded requests and replies, no socket.
#pragma once

#include <memory>
#include <string>

#include "util/rpc/channel/rpc.h"

namespace dlsm {

// `handler` outlives the client and its unanswered calls. The destructor tells it Disconnected().
std::unique_ptr<RpcClient> NewLoopbackRpcClient(RpcHandler* handler, RpcPeer peer);

}  // namespace dlsm
