// The memory node's end of TCP data connections: wiring.
#include "util/fabric/tcp/tcp_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "port/processors.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/region_table.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_hello.h"
#include "util/fabric/tcp/tcp_server_thread.h"
#include "util/fabric/tcp/tcp_tokens.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each takes a socket and 50 KB: a bound on what peers that passed the hello can make this process
// hold.
constexpr size_t kConnectionsMax = 4096;
constexpr int kThreadsMax = 256;
constexpr const char* kShow = "show its token";
// How long a client may take to be told that its connection is refused.
constexpr std::chrono::seconds kRefusalMax{1};

class TcpFabricServerImpl : public TcpFabricServer {
 public:
  TcpFabricServerImpl(const std::vector<ExportedRegion*>& regions, std::chrono::microseconds poll,
                      MessageOrder* order)
      : order_(order), polls_(poll, port::ProcessorCount()) {
    for (const ExportedRegion* region : regions) {
      regions_.Add(MappedRegion{region->info().id, region->data(), region->info().bytes});
    }
  }

  // All end before one goes: they hand connections to each other.
  ~TcpFabricServerImpl() override {
    for (const auto& thread : threads_) thread->Stop();
  }

  Status StartThreads(int count) {
    for (int i = 0; i < count; ++i) {
      std::unique_ptr<TcpServerThread> thread;
      DLSM_RETURN_IF_ERROR(TcpServerThread::Start(regions_, tokens_, order_, polls_, &thread));
      threads_.push_back(std::move(thread));
    }
    for (const auto& thread : threads_) {
      std::vector<TcpServerThread*> peers;
      for (const auto& each : threads_) {
        if (each != thread) peers.push_back(each.get());
      }
      thread->SetPeers(std::move(peers));
    }
    return Status::OK();
  }

  Status Greet(TcpStream& stream, Deadline deadline, std::string* token) override {
    const std::string peer = SocketPeerName(stream.get());
    std::string opening(kTcpOpeningBytes, '\0');
    DLSM_RETURN_IF_ERROR(
        OfClient(ReceiveWhole(peer, stream, opening.data(), opening.size(), deadline), kShow));
    const std::string shown = opening.substr(0, kTcpTokenBytes);
    std::string key;
    ReachPointer reach;
    if (!tokens_.Allowed(shown, &key, &reach)) {
      return Status::InvalidArgument(
          "its data connection shows no token that this memory node gave out");
    }
    std::string challenge;
    std::string expected;
    DLSM_RETURN_IF_ERROR(MakeTcpChallenge(opening, key, &challenge, &expected));
    DLSM_RETURN_IF_ERROR(OfClient(SendWhole(peer, stream, challenge, deadline), kShow));
    std::string proof(kProofBytes, '\0');
    DLSM_RETURN_IF_ERROR(
        OfClient(ReceiveWhole(peer, stream, proof.data(), proof.size(), deadline), kShow));
    if (!ProofsEqual(proof, expected)) {
      return Status::InvalidArgument(
          "its data connection shows a token that it has no key for; somebody may have read it "
          "from the network");
    }
    *token = shown;
    return Status::OK();
  }

  void Adopt(TcpStream stream, const std::string& token) override {
    const size_t connections = Connections();
    if (connections >= kConnectionsMax) {
      Log().Warn("data connection of {} refused: there are {} already",
                 SocketPeerName(stream.get()), connections);
      RefuseFor(TcpCode::kTooMany, stream, Deadline::In(kRefusalMax)).PermitUncheckedError();
      stream.Shutdown();  // The client hears of it, whoever else has a descriptor of its socket.
      return;
    }
    LeastBusy().Adopt(std::move(stream), token);
  }

  Status Refuse(TcpStream& stream, Deadline deadline) override {
    return RefuseFor(TcpCode::kNoDescriptor, stream, deadline);
  }

  void AllowToken(const std::string& token, const std::string& key, ReachPointer reach) override {
    tokens_.Allow(token, key, std::move(reach));
  }

  WaitCounts Waits() const override { return polls_.Counts(); }

  uint64_t HandedOver() const override {
    uint64_t sum = 0;
    for (const auto& thread : threads_) sum += thread->handed_over();
    return sum;
  }

  size_t Connections() const override {
    size_t sum = 0;
    for (const auto& thread : threads_) sum += thread->connections();
    return sum;
  }

  TcpTraffic Traffic() const override {
    TcpTraffic sum;
    for (const auto& thread : threads_) {
      const TcpTraffic traffic = thread->traffic();
      sum.received += traffic.received;
      sum.sent += traffic.sent;
    }
    return sum;
  }

  Status RevokeToken(const std::string& token) override {
    // First, so that a connection that is showing it just now is either refused or closed below.
    tokens_.Revoke(token);
    Status status;
    for (const auto& thread : threads_) {
      Status closed = thread->CloseAll(token);
      if (!closed.ok()) status = std::move(closed);
    }
    return status;
  }

 private:
  // Answers the request that follows the hello.
  static Status RefuseFor(TcpCode why, TcpStream& stream, Deadline deadline) {
    const std::string peer = SocketPeerName(stream.get());
    TcpRequest::Encoded request;
    DLSM_RETURN_IF_ERROR(OfClient(
        ReceiveWhole(peer, stream, request.data(), request.size(), deadline), "end its hello"));
    TcpReply reply;
    reply.code = why;
    std::string bytes(TcpReply::kBytes, '\0');
    reply.Encode(bytes.data());
    return OfClient(SendWhole(peer, stream, bytes, deadline), "take a refusal");
  }

  TcpServerThread& LeastBusy() {
    return **std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
      return a->connections() < b->connections();
    });
  }

  MessageOrder* const order_;
  RegionTable regions_;
  TcpTokens tokens_;
  PollGroup polls_;
  std::vector<std::unique_ptr<TcpServerThread>> threads_;  // Ended before what they use is.
};

}  // namespace

Status TcpFabricServer::Start(const std::vector<ExportedRegion*>& regions, int threads,
                              std::chrono::microseconds poll, MessageOrder* order,
                              std::unique_ptr<TcpFabricServer>* server) {
  if (threads < 1 || threads > kThreadsMax) {
    return Status::InvalidArgument(
        fmt::format("{} fabric threads; ask for 1 to {}", threads, kThreadsMax));
  }
  auto started = std::make_unique<TcpFabricServerImpl>(regions, poll, order);
  DLSM_RETURN_IF_ERROR(started->StartThreads(threads));
  *server = std::move(started);
  return Status::OK();
}

}  // namespace dlsm
