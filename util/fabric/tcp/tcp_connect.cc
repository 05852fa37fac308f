#include "util/fabric/tcp/tcp_connect.h"

#include <fmt/core.h>

#include <utility>

#include "port/processors.h"
#include "util/fabric/tcp/tcp_datapath.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_hello.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/tls/tls_context.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

std::shared_ptr<const TcpPeer> MakePeer(const FabricPeer& peer) {
  auto made = std::make_shared<TcpPeer>();
  made->node = peer.node;
  made->name = PeerName(peer);
  for (const RegionInfo& region : peer.regions) {
    made->regions.Add(MappedRegion{region.id, nullptr, region.bytes});
  }
  return made;
}

}  // namespace

Status TcpConnection::Connect(const FabricPeer& peer, std::chrono::nanoseconds poll,
                              bool share_reads, int numa_node,
                              std::unique_ptr<FabricConnection>* connection) {
  if (peer.data_token.size() != kTcpTokenBytes) {
    return Status::InvalidArgument(
        fmt::format("a data token has {} bytes, not {}", kTcpTokenBytes, peer.data_token.size()));
  }
  PeerDialer dialer;
  DLSM_RETURN_IF_ERROR(PeerDialer::Resolve(peer, &dialer));
  connection->reset(new TcpConnection(peer, std::move(dialer), poll, share_reads, numa_node));
  return Status::OK();
}

TcpConnection::TcpConnection(const FabricPeer& peer, PeerDialer dialer,
                             std::chrono::nanoseconds poll, bool share_reads, int numa_node)
    : dialer_(std::move(dialer)),
      token_(peer.data_token),
      key_(peer.data_key),
      host_(peer.host),
      where_(fmt::format("{}:{}", peer.host, peer.port)),
      tls_(peer.tls),
      peer_(MakePeer(peer)),
      numa_node_(numa_node),
      buffers_(numa_node),
      polls_(poll, port::ProcessorCount()) {
  if (!share_reads) return;
  sharing_ = std::make_unique<TcpReadSharing>(
      peer_, polls_, poll, port::ProcessorCount(),
      [this](Deadline deadline, TcpStream* stream) { return Open(deadline, stream); });
}

WaitCounts TcpConnection::Waits() const {
  WaitCounts counts = polls_.Counts();
  if (sharing_ != nullptr) counts += sharing_->Waits();
  return counts;
}

Status TcpConnection::NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) {
  TcpStream stream;
  DLSM_RETURN_IF_ERROR(Open(deadline, &stream));
  *queue_pair =
      std::make_unique<TcpQueuePair>(std::move(stream), peer_, costs_, polls_, sharing_.get());
  return Status::OK();
}

Status TcpConnection::Open(Deadline deadline, TcpStream* stream) const {
  FileDescriptor socket;
  DLSM_RETURN_IF_ERROR(dialer_.Dial(deadline, &socket));
  // A memory node receives no more requests while its answers are not taken, and this process may
  // do something else meanwhile. Whoever waits has a deadline.
  AllowSlowReader(socket.get());
  *stream = TcpStream(std::move(socket));
  if (tls_ != nullptr) DLSM_RETURN_IF_ERROR(tls_->Connect(*stream, host_, where_, deadline));
  return SayHello(*stream, deadline);
}

Status TcpConnection::SayHello(TcpStream& stream, Deadline deadline) const {
  TcpHello hello(token_, key_);
  std::string opening;
  DLSM_RETURN_IF_ERROR(hello.Open(&opening));
  DLSM_RETURN_IF_ERROR(
      SendWhole(peer_->name, stream, std::string(kTcpPreamble) + opening, deadline));
  std::string challenge(kTcpChallengeBytes, '\0');
  DLSM_RETURN_IF_ERROR(
      ReceiveWhole(peer_->name, stream, challenge.data(), challenge.size(), deadline));
  std::string proof;
  if (!hello.Answer(challenge, &proof)) {
    return Status::InvalidArgument(
        peer_->name + " did not prove itself on a new data connection",
        "somebody else may answer in its place; check the network between, and use TLS");
  }
  TcpRequest::Encoded request;
  TcpRequest{}.Encode(request.data());
  proof.append(request.data(), request.size());
  DLSM_RETURN_IF_ERROR(SendWhole(peer_->name, stream, proof, deadline));
  TcpReply::Encoded bytes;
  DLSM_RETURN_IF_ERROR(ReceiveWhole(peer_->name, stream, bytes.data(), bytes.size(), deadline));
  TcpReply reply;
  const TcpCode decoded = reply.Decode(bytes.data());
  if (decoded == TcpCode::kOtherVersion || reply.code == TcpCode::kOtherVersion) {
    return Status::NotSupported(
        fmt::format("{} speaks version {} of the data protocol, this process version {}; run the "
                    "same release on both",
                    peer_->name, static_cast<uint8_t>(bytes[0]), kTcpVersion));
  }
  if (decoded == TcpCode::kOk && reply.code == TcpCode::kNoDescriptor) {
    return Status::IOError(peer_->name + " has no descriptor left for this data connection",
                           "raise the limit of open files of its Server (ulimit -n)");
  }
  if (decoded == TcpCode::kOk && reply.code == TcpCode::kTooMany) {
    return Status::IOError(peer_->name + " takes no more data connections",
                           "use fewer threads, or more memory nodes");
  }
  if (decoded != TcpCode::kOk || reply.code != TcpCode::kOk || reply.opcode != TcpOpcode::kHello) {
    return Status::Corruption(peer_->name + " answered a hello with something else");
  }
  return Status::OK();
}

}  // namespace dlsm
