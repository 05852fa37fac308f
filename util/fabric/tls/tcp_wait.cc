#include "util/fabric/tls/tcp_wait.h"

#include <cerrno>
#include <chrono>
#include <ctime>

namespace dlsm {

bool PollSockets(std::span<pollfd> watched, Deadline deadline) {
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  const int64_t remaining = deadline.Remaining().count();
  timespec timeout{};
  timeout.tv_sec = remaining / kNanosecondsPerSecond;
  timeout.tv_nsec = remaining % kNanosecondsPerSecond;
  const int ready = ::ppoll(watched.data(), watched.size(), &timeout, nullptr);
  return ready > 0 || (ready < 0 && errno == EINTR);
}

bool PollSocket(int socket, short events, Deadline deadline) {
  pollfd watched[] = {{socket, events, 0}};
  return PollSockets(watched, deadline);
}

}  // namespace dlsm
