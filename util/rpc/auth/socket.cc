#include "util/rpc/auth/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "port/error_text.h"
#include "util/fabric/tcp/tcp_addresses.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A peer whose host or network is gone is noticed after so long, sending or idle.
constexpr unsigned kUserTimeoutMs = 10000;
constexpr int kKeepAliveIdleSeconds = 5;
constexpr int kKeepAliveIntervalSeconds = 2;
constexpr int kKeepAliveProbes = 3;

constexpr int kListenBacklog = 1024;

// Waits until `socket` is ready for `events`. Also true when it has failed: the next call says how.
Status WaitReady(int socket, short events, Deadline deadline) {
  for (;;) {
    pollfd waited{socket, events, 0};
    const int ready = poll(&waited, 1, PollTimeout(deadline));
    if (ready > 0) return Status::OK();
    if (ready < 0 && errno != EINTR) return Status::IOError("poll", port::ErrorText(errno));
    if (deadline.Passed()) return Status::TimedOut("no answer in time");
  }
}

uint16_t BoundPort(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

void SetOption(int socket, int level, int name, int value) {
  // These only tune; a kernel without one of them still works.
  static_cast<void>(setsockopt(socket, level, name, &value, sizeof(value)));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Status ConnectSocket(const std::string& host, uint16_t port, Deadline deadline, Socket* socket,
                     ConnectFailure* failure) {
  *failure = ConnectFailure::kOther;
  TcpAddresses addresses;
  DLSM_RETURN_IF_ERROR(TcpAddresses::Resolve(host, port, &addresses));
  DLSM_RETURN_IF_ERROR(addresses.Connect(deadline, socket, failure));
  PrepareSocket(socket->get());
  return Status::OK();
}

Status ListenSocket(const std::string& bind_address, uint16_t port, Socket* socket,
                    uint16_t* bound_port) {
  TcpAddresses addresses;
  if (!TcpAddresses::ResolveNumeric(bind_address, port, &addresses).ok()) {
    return Status::InvalidArgument(fmt::format(
        "'{}' is not an address to bind to; give a numeric one, such as 127.0.0.1 or 0.0.0.0",
        bind_address));
  }
  const TcpAddresses::Address& address = addresses.all().front();
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  Socket made(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) return CannotOpen("a socket to listen on", errno);
  // Takes a port that a former server's dying connections still hold, never one in use.
  SetOption(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(made.get(), generic, address.bytes) != 0 || listen(made.get(), kListenBacklog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return Status::IOError(fmt::format(
          "port {} of {} is in use; stop the process that has it, or choose another port", port,
          bind_address));
    }
    return Status::IOError(
        fmt::format("cannot listen on {}:{}: {}", bind_address, port, port::ErrorText(error)));
  }
  *bound_port = BoundPort(made.get());
  *socket = std::move(made);
  return Status::OK();
}

void PrepareSocket(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kUserTimeoutMs));
}

namespace {

bool NumericPeer(int socket, std::string* host, std::string* port) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  char host_name[NI_MAXHOST];
  char port_name[NI_MAXSERV];
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host_name, sizeof(host_name),
                  port_name, sizeof(port_name), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return false;
  }
  *host = host_name;
  *port = port_name;
  return true;
}

}  // namespace

std::string PeerAddress(int socket) {
  std::string host;
  std::string port;
  return NumericPeer(socket, &host, &port) ? fmt::format("{}:{}", host, port) : "a peer";
}

std::string PeerHost(int socket) {
  std::string host;
  std::string port;
  return NumericPeer(socket, &host, &port) ? host : "";
}

Status SendAll(int socket, const Slice& bytes, Deadline deadline) {
  Slice rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = send(socket, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<size_t>(sent));
    } else if (WouldBlock(errno)) {
      DLSM_RETURN_IF_ERROR(WaitReady(socket, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return Status::IOError("the connection failed", port::ErrorText(errno));
    }
  }
  return Status::OK();
}

Status ReceiveAll(int socket, char* to, size_t bytes, Deadline deadline) {
  while (bytes > 0) {
    const ssize_t received = recv(socket, to, bytes, MSG_DONTWAIT);
    if (received > 0) {
      to += received;
      bytes -= static_cast<size_t>(received);
    } else if (received == 0) {
      return Status::IOError("the peer closed the connection");
    } else if (WouldBlock(errno)) {
      DLSM_RETURN_IF_ERROR(WaitReady(socket, POLLIN, deadline));
    } else if (errno != EINTR) {
      return Status::IOError("the connection failed", port::ErrorText(errno));
    }
  }
  return Status::OK();
}

Status PeekAll(int socket, char* to, size_t bytes, Deadline deadline) {
  // A part of them makes a socket readable at once: that is not to be waited for in a loop.
  constexpr int kPauseMs = 5;
  bool ended = false;
  for (;;) {
    const ssize_t received = recv(socket, to, bytes, MSG_PEEK | MSG_DONTWAIT);
    if (received == static_cast<ssize_t>(bytes)) return Status::OK();
    // A part is found again and again, also when nothing can follow it any more.
    if (received == 0 || (received > 0 && ended)) {
      return Status::IOError("the peer closed the connection");
    }
    if (received > 0) {
      if (deadline.Passed()) return Status::TimedOut("no answer in time");
      pollfd waited{socket, POLLRDHUP, 0};
      ended = poll(&waited, 1, kPauseMs) > 0;
    } else if (WouldBlock(errno)) {
      DLSM_RETURN_IF_ERROR(WaitReady(socket, POLLIN, deadline));
    } else if (errno != EINTR) {
      return Status::IOError("the connection failed", port::ErrorText(errno));
    }
  }
}

Status SendAll(TcpStream& stream, const Slice& bytes, Deadline deadline) {
  Slice rest = bytes;
  while (!rest.empty()) {
    iovec part{const_cast<char*>(rest.data()), rest.size()};  // It is not written to.
    size_t moved = 0;
    switch (stream.Send(&part, 1, &moved)) {
      case SocketOutcome::kMoved:
        rest.remove_prefix(moved);
        break;
      case SocketOutcome::kBlocked:
        DLSM_RETURN_IF_ERROR(WaitReady(stream.get(), POLLOUT, deadline));
        break;
      default:
        return Status::IOError("the connection failed", stream.Failure());
    }
  }
  return Status::OK();
}

Status ReceiveAll(TcpStream& stream, char* to, size_t bytes, Deadline deadline) {
  while (bytes > 0) {
    iovec part{to, bytes};
    size_t moved = 0;
    switch (stream.Receive(&part, 1, &moved)) {
      case SocketOutcome::kMoved:
        to += moved;
        bytes -= moved;
        break;
      case SocketOutcome::kBlocked:
        DLSM_RETURN_IF_ERROR(WaitReady(stream.get(), POLLIN, deadline));
        break;
      case SocketOutcome::kEnded:
        return Status::IOError("the peer closed the connection");
      case SocketOutcome::kFailed:
        return Status::IOError("the connection failed", stream.Failure());
    }
  }
  return Status::OK();
}

int PollTimeout(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline.Remaining());
  return static_cast<int>(std::min(left, milliseconds(3'600'000)).count());
}

}  // namespace dlsm
