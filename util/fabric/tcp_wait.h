// Sleeping until a socket is ready.
#pragma once

#include <poll.h>

#include "util/deadline.h"

namespace dlsm {

// Returns whether `socket` became ready for `events` (POLLIN, POLLOUT), or failed, before the
// deadline. May return true without reason: callers loop.
bool PollSocket(int socket, short events, Deadline deadline);

}  // namespace dlsm
