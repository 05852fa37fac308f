// What carries the calls of a client, once the hello over TCP is done:
//
//   tcp    frames over the control connection
//   verbs  requests by SEND into receive buffers, replies by RDMA WRITE into the buffer that the
//          request names, with an immediate that wakes the sleeping caller
//   ring   requests and replies by RDMA WRITE into rings that the other side polls (rpc_ring.h)
//
// With the last two, the control connection arranges the queue pair (see transport_messages.h) and
// then is its life line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_options.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {

enum class RpcTransport : uint8_t { kTcp = 0, kVerbs, kRing };
const char* RpcTransportName(RpcTransport transport);
std::optional<RpcTransport> RpcTransportFromName(std::string_view name);

struct RpcTransportOptions {
  RpcTransport kind = RpcTransport::kTcp;
  VerbsOptions verbs;  // For kVerbs and kRing.
};

// The one request that the server of a connection answers by itself: the client's offer of another
// transport for the calls that follow.
inline constexpr Method kOpenTransport{255};

}  // namespace dlsm
