#include "util/fabric/peer_dialer.h"

#include <fmt/core.h>
#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "port/error_text.h"
#include "util/fabric/tcp_socket.h"
#include "util/fabric/tcp_wait.h"

namespace dlsm {
namespace {

Status Refused(const std::string& peer) {
  return Status::IOError(
      peer +
      " refused this data connection: was it restarted, or has this handle's session ended? "
      "Its log says; open the database again");
}

// Moves all of the bytes, one way.
template <typename Move>
Status MoveAll(const std::string& peer, int socket, short event, char* data, size_t bytes,
               Deadline deadline, Move move) {
  while (bytes > 0) {
    iovec part{data, bytes};
    size_t moved = 0;
    switch (move(&part, &moved)) {
      case SocketOutcome::kMoved:
        data += moved;
        bytes -= moved;
        continue;
      case SocketOutcome::kBlocked:
        break;
      case SocketOutcome::kEnded:
        return Refused(peer);
      case SocketOutcome::kFailed:
        // A refusal that overtakes what was sent.
        if (errno == ECONNRESET || errno == EPIPE) return Refused(peer);
        return Status::IOError(
            fmt::format("{} dropped a new data connection ({}): is its Server "
                        "still running?",
                        peer, port::ErrorText(errno)));
    }
    if (deadline.Passed()) {
      return Status::TimedOut(peer + " does not answer on a new data connection");
    }
    PollSocket(socket, event, deadline);
  }
  return Status::OK();
}

}  // namespace

std::string PeerName(const FabricPeer& peer) {
  return fmt::format("memory node {} at {}:{}", static_cast<uint32_t>(peer.node), peer.host,
                     peer.port);
}

Status PeerDialer::Resolve(const FabricPeer& peer, PeerDialer* dialer) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &found);
  if (error != 0) {
    return Status::IOError(fmt::format("cannot resolve host \"{}\" of memory node {}: {}",
                                       peer.host, static_cast<uint32_t>(peer.node),
                                       ::gai_strerror(error)));
  }
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Address address;
    address.bytes = each->ai_addrlen;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    dialer->addresses_.push_back(address);
  }
  ::freeaddrinfo(found);
  dialer->name_ = PeerName(peer);
  return Status::OK();
}

Status PeerDialer::Dial(Deadline deadline, FileDescriptor* socket) const {
  Status status = Status::IOError(name_ + " has no address");
  for (const Address& address : addresses_) {
    status.PermitUncheckedError();  // The last one tells enough.
    status = DialAddress(address, deadline, socket);
    if (status.ok()) break;
  }
  return status;
}

Status PeerDialer::DialAddress(const Address& address, Deadline deadline,
                               FileDescriptor* socket) const {
  const auto failed = [this](int error) {
    return Status::IOError(fmt::format("cannot connect to {}: {}; is its Server running?", name_,
                                       port::ErrorText(error)));
  };
  FileDescriptor dialed(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!dialed.valid()) return failed(errno);
  PrepareDataSocket(dialed.get());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(dialed.get(), generic, address.bytes) != 0) {
    if (errno != EINPROGRESS) return failed(errno);
    if (!PollSocket(dialed.get(), POLLOUT, deadline)) {
      return Status::TimedOut(
          fmt::format("{} does not take a connection; is it reachable?", name_));
    }
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    if (::getsockopt(dialed.get(), SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) error = errno;
    if (error != 0) return failed(error);
  }
  *socket = std::move(dialed);
  return Status::OK();
}

// What is sent is not written to.
Status SendWhole(const std::string& peer, int socket, const std::string& bytes, Deadline deadline) {
  return MoveAll(peer, socket, POLLOUT, const_cast<char*>(bytes.data()), bytes.size(), deadline,
                 [&](iovec* part, size_t* moved) { return SocketSend(socket, part, 1, moved); });
}

Status ReceiveWhole(const std::string& peer, int socket, char* to, size_t bytes,
                    Deadline deadline) {
  return MoveAll(peer, socket, POLLIN, to, bytes, deadline,
                 [&](iovec* part, size_t* moved) { return SocketReceive(socket, part, 1, moved); });
}

Status SendWhole(const std::string& peer, TcpStream& stream, const std::string& bytes,
                 Deadline deadline) {
  return MoveAll(peer, stream.get(), POLLOUT, const_cast<char*>(bytes.data()), bytes.size(),
                 deadline, [&](iovec* part, size_t* moved) { return stream.Send(part, 1, moved); });
}

Status ReceiveWhole(const std::string& peer, TcpStream& stream, char* to, size_t bytes,
                    Deadline deadline) {
  return MoveAll(peer, stream.get(), POLLIN, to, bytes, deadline,
                 [&](iovec* part, size_t* moved) { return stream.Receive(part, 1, moved); });
}

}  // namespace dlsm
