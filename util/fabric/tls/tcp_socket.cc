#include "util/fabric/tls/tcp_socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace dlsm {
namespace {

SocketOutcome Failure() {
  return errno == EAGAIN || errno == EWOULDBLOCK ? SocketOutcome::kBlocked : SocketOutcome::kFailed;
}

msghdr Message(iovec* parts, size_t count) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return message;
}

SocketOutcome Received(ssize_t result, size_t* moved) {
  if (result < 0) return Failure();
  if (result == 0) return SocketOutcome::kEnded;
  *moved = static_cast<size_t>(result);
  return SocketOutcome::kMoved;
}

void SetOption(int socket, int level, int name, int value) {
  // Each only improves what works without it.
  (void)::setsockopt(socket, level, name, &value, sizeof(value));
}

}  // namespace

SocketOutcome SocketSend(int socket, iovec* parts, size_t count, size_t* moved) {
  msghdr message = Message(parts, count);
  ssize_t result;
  do {
    result = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  if (result < 0) return Failure();
  *moved = static_cast<size_t>(result);
  return SocketOutcome::kMoved;
}

SocketOutcome SocketReceive(int socket, iovec* parts, size_t count, size_t* moved) {
  msghdr message = Message(parts, count);
  ssize_t result;
  do {
    result = ::recvmsg(socket, &message, MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return Received(result, moved);
}

SocketOutcome SocketReceiveOrSleep(int socket, iovec* parts, size_t count, size_t* moved) {
  msghdr message = Message(parts, count);
  const ssize_t result = ::recvmsg(socket, &message, 0);
  // Slept on, a process that gets many signals would never see its deadline.
  if (result < 0 && errno == EINTR) return SocketOutcome::kBlocked;
  return Received(result, moved);
}

bool BlockToReceive(int socket, std::chrono::microseconds most) {
  const timeval timeout{0, most.count()};
  if (::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0) return false;
  const int flags = ::fcntl(socket, F_GETFL);
  // All other calls ask not to block each time.
  return flags >= 0 && ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

void PrepareDataSocket(int socket) {
  constexpr int kSilenceMs = 30'000;
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags >= 0) (void)::fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSilenceMs / 1000);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kSilenceMs / 3000);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceMs);
}

void AllowSlowReader(int socket) { SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0); }

std::string SocketPeerName(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getpeername(socket, generic, &bytes) != 0 ||
      ::getnameinfo(generic, bytes, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown peer";
  }
  return fmt::format("{}:{}", host.data(), port.data());
}

}  // namespace dlsm
