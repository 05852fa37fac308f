// Sleeping until a socket is ready.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>

#include "util/deadline.h"

namespace dlsm {

// A client that gives up what it has sent waits so long for the server to have carried it out, and
// then resets the connection: a server that is alive needs microseconds, one that hangs must not
// hold its client for long. A server begins nothing by what it asked the kernel about a connection
// more than half as long ago. But it may have asked just before the reset: so the client waits as
// long again after that. What the server has begun, a piece of a write at most, has the other half
// to come to its end.
inline constexpr std::chrono::milliseconds kTcpDrain{100};

// Returns whether one of `watched` became ready for its events (POLLIN, POLLOUT), or failed, before
// the deadline. May return true without reason: callers loop.
bool PollSockets(std::span<pollfd> watched, Deadline deadline);
bool PollSocket(int socket, short events, Deadline deadline);

}  // namespace dlsm
