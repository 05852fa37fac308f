#include "util/fabric/tcp_wait.h"

#include <cerrno>
#include <chrono>
#include <ctime>

namespace dlsm {

bool PollSocket(int socket, short events, Deadline deadline) {
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  const int64_t remaining = deadline.Remaining().count();
  timespec timeout{};
  timeout.tv_sec = remaining / kNanosecondsPerSecond;
  timeout.tv_nsec = remaining % kNanosecondsPerSecond;
  pollfd entry{socket, events, 0};
  const int ready = ::ppoll(&entry, 1, &timeout, nullptr);
  return ready > 0 || (ready < 0 && errno == EINTR);
}

}  // namespace dlsm
