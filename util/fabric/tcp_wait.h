// Sleeping until a socket is ready.
#pragma once

#include <poll.h>

#include <span>

#include "util/deadline.h"

namespace dlsm {

// Returns whether one of `watched` became ready for its events (POLLIN, POLLOUT), or failed, before
// the deadline. May return true without reason: callers loop.
bool PollSockets(std::span<pollfd> watched, Deadline deadline);
bool PollSocket(int socket, short events, Deadline deadline);

}  // namespace dlsm
