// The memory node's end of the verbs and ring transports. The messages are in transport_messages.h.
//
//   1. Requests come as SENDs into receive buffers (verbs) or into the ring (ring). A payload that
//      is too large for that is fetched with RDMA READs out of the client's memory.
//   2. The connection's thread hands them to the handler: out of the receive buffer itself, which
//      nobody writes to meanwhile; or out of a copy, because a client can write to its ring at any
//      time.
//   3. A reply is written into the place that its request names, by whichever thread answers. What
//      the send queue has no room for waits for the connection's thread.
//   4. With nothing to do, the thread sleeps: on verbs until the device reports a SEND; on ring
//      after polling for kRingIdle, and after it has told the client so: the client then wakes it
//      with an immediate.
//
// A client reaches its own ring and nothing else: each connection has a protection domain of its
// own. Whatever it sends or writes can end its connection only.
#pragma once

#include <chrono>

#include "util/rpc/channel/server_transport.h"
#include "util/rpc/verbs/rpc_transport.h"

namespace dlsm {

// How long a thread polls a ring in which nothing happens.
inline constexpr std::chrono::microseconds kRingIdle{100};

// Opens the device. The factory is thread-safe.
Status NewVerbsTransportFactory(const VerbsOptions& options, ServerTransportFactory* factory);

}  // namespace dlsm
