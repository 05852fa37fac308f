#include "util/fabric/tcp/peer_dialer.h"

#include <fmt/core.h>

#include <cerrno>

#include "port/error_text.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/tls/tcp_wait.h"

namespace dlsm {
namespace {

Status Refused(const std::string& peer) {
  return Status::IOError(
      peer + " ended this data connection before it was set up",
      "this handle's session there has ended, or there was no room for the connection: its log "
      "says which; open the database again");
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
      return Status::TimedOut(peer + " does not answer on a new data connection",
                              "is it overloaded, or out of descriptors? Its log says");
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
  dialer->name_ = PeerName(peer);
  const Status status = TcpAddresses::Resolve(peer.host, peer.port, &dialer->addresses_);
  if (status.ok()) return status;
  return Status::IOError(dialer->name_, status.message());
}

Status PeerDialer::Dial(Deadline deadline, FileDescriptor* socket) const {
  ConnectFailure failure{};
  const Status status = addresses_.Connect(deadline, socket, &failure);
  if (status.IsTimedOut()) {
    return Status::TimedOut(fmt::format("{} does not take a connection; is it reachable?", name_));
  }
  if (!status.ok() && failure == ConnectFailure::kOwnLimit) {
    return Status::IOError("cannot connect to " + name_, status.message());
  }
  if (!status.ok()) {
    return Status::IOError(fmt::format("cannot connect to {}: {}; is its Server running?", name_,
                                       status.message().ToStringView()));
  }
  PrepareDataSocket(socket->get());
  return status;
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

Status OfClient(const Status& status, const char* do_what) {
  if (!status.IsIOError() && !status.IsTimedOut()) return status;
  const char* const when = status.IsTimedOut() ? "in time" : "before its connection ended";
  return Status::FromCode(status.code(), fmt::format("it did not {} {}", do_what, when));
}

}  // namespace dlsm
