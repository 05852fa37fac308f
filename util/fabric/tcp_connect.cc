#include "util/fabric/tcp_connect.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "util/fabric/tcp_datapath.h"
#include "util/fabric/tcp_frame.h"
#include "util/fabric/tcp_socket.h"
#include "util/fabric/tcp_wait.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

std::shared_ptr<const TcpPeer> MakePeer(const FabricPeer& peer) {
  auto made = std::make_shared<TcpPeer>();
  made->node = peer.node;
  made->name = fmt::format("memory node {} at {}:{}", static_cast<uint32_t>(peer.node), peer.host,
                           peer.port);
  for (const RegionInfo& region : peer.regions) {
    made->regions.Add(MappedRegion{region.id, nullptr, region.bytes});
  }
  return made;
}

// Moves all of the bytes, one way.
template <typename Move>
Status MoveAll(const std::string& peer, int socket, short event, char* data, size_t bytes,
               Deadline deadline, Move move) {
  while (bytes > 0) {
    iovec part{data, bytes};
    size_t moved = 0;
    switch (move(socket, &part, 1, &moved)) {
      case SocketOutcome::kMoved:
        data += moved;
        bytes -= moved;
        continue;
      case SocketOutcome::kBlocked:
        break;
      case SocketOutcome::kEnded:
        return Status::IOError(peer + " refused this data connection; its log says why");
      case SocketOutcome::kFailed:
        return Status::IOError(
            fmt::format("{} dropped a new data connection ({}): is its Server "
                        "still running?",
                        peer, std::strerror(errno)));
    }
    if (deadline.Passed()) {
      return Status::TimedOut(peer + " does not answer on a new data connection");
    }
    PollSocket(socket, event, deadline);
  }
  return Status::OK();
}

}  // namespace

Status TcpConnection::Connect(const FabricPeer& peer,
                              std::unique_ptr<FabricConnection>* connection) {
  if (peer.data_token.size() != kTcpTokenBytes) {
    return Status::InvalidArgument(
        fmt::format("a data token has {} bytes, not {}", kTcpTokenBytes, peer.data_token.size()));
  }
  std::vector<Address> addresses;
  DLSM_RETURN_IF_ERROR(Resolve(peer, &addresses));
  connection->reset(new TcpConnection(peer, std::move(addresses)));
  return Status::OK();
}

TcpConnection::TcpConnection(const FabricPeer& peer, std::vector<Address> addresses)
    : addresses_(std::move(addresses)), token_(peer.data_token), peer_(MakePeer(peer)) {}

Status TcpConnection::Resolve(const FabricPeer& peer, std::vector<Address>* addresses) {
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
    addresses->push_back(address);
  }
  ::freeaddrinfo(found);
  return Status::OK();
}

Status TcpConnection::NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) {
  FileDescriptor socket;
  DLSM_RETURN_IF_ERROR(Dial(deadline, &socket));
  DLSM_RETURN_IF_ERROR(SayHello(socket.get(), deadline));
  *queue_pair = std::make_unique<TcpQueuePair>(std::move(socket), peer_, costs_);
  return Status::OK();
}

Status TcpConnection::Dial(Deadline deadline, FileDescriptor* socket) const {
  Status status = Status::IOError(peer_->name + " has no address");
  for (const Address& address : addresses_) {
    status = DialAddress(address, deadline, socket);
    if (status.ok()) break;
  }
  return status;
}

Status TcpConnection::DialAddress(const Address& address, Deadline deadline,
                                  FileDescriptor* socket) const {
  const auto failed = [this](int error) {
    return Status::IOError(fmt::format("cannot connect to {}: {}; is its Server running?",
                                       peer_->name, std::strerror(error)));
  };
  FileDescriptor dialed(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!dialed.valid()) return failed(errno);
  PrepareDataSocket(dialed.get());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(dialed.get(), generic, address.bytes) != 0) {
    if (errno != EINPROGRESS) return failed(errno);
    if (!PollSocket(dialed.get(), POLLOUT, deadline)) {
      return Status::TimedOut(
          fmt::format("{} does not take a connection; is it reachable?", peer_->name));
    }
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    if (::getsockopt(dialed.get(), SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) error = errno;
    if (error != 0) return failed(error);
  }
  *socket = std::move(dialed);
  return Status::OK();
}

Status TcpConnection::SayHello(int socket, Deadline deadline) const {
  std::string greeting(kTcpPreamble);
  greeting += token_;
  TcpRequest::Encoded request;
  TcpRequest{}.Encode(request.data());
  greeting.append(request.data(), request.size());
  DLSM_RETURN_IF_ERROR(MoveAll(peer_->name, socket, POLLOUT, greeting.data(), greeting.size(),
                               deadline, SocketSend));
  TcpReply::Encoded bytes;
  DLSM_RETURN_IF_ERROR(
      MoveAll(peer_->name, socket, POLLIN, bytes.data(), bytes.size(), deadline, SocketReceive));
  TcpReply reply;
  const TcpCode decoded = reply.Decode(bytes.data());
  if (decoded == TcpCode::kOtherVersion || reply.code == TcpCode::kOtherVersion) {
    return Status::NotSupported(
        fmt::format("{} speaks version {} of the data protocol, this process version {}; run the "
                    "same release on both",
                    peer_->name, static_cast<uint8_t>(bytes[0]), kTcpVersion));
  }
  if (decoded != TcpCode::kOk || reply.code != TcpCode::kOk || reply.opcode != TcpOpcode::kHello) {
    return Status::Corruption(peer_->name + " answered a hello with something else");
  }
  return Status::OK();
}

}  // namespace dlsm
