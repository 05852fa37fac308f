// The set-up of TCP data connections; the data path is in tcp_datapath.h.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/buffer_pool.h"
#include "util/fabric/fabric.h"
#include "util/fabric/queue_pair_ledger.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/tcp/tcp_peer.h"
#include "util/fabric/tcp/tcp_read_sharing.h"

namespace dlsm {

class TcpConnection : public FabricConnection {
 public:
  // Resolves the host; connects at the first queue pair.
  // `poll`: how long a wait for an answer may poll before it sleeps. `share_reads`: whether threads
  // may read over a shared connection. `numa_node`: of its buffers.
  static Status Connect(const FabricPeer& peer, std::chrono::nanoseconds poll, bool share_reads,
                        int numa_node, std::unique_ptr<FabricConnection>* connection);

  FabricKind kind() const override { return FabricKind::kTcp; }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override;
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return buffers_.NewBuffer(bytes, buffer);
  }
  WireTotals Totals() const override { return costs_.Totals(); }
  WaitCounts Waits() const override;
  int numa_node() const override { return numa_node_; }

 private:
  TcpConnection(const FabricPeer& peer, PeerDialer dialer, std::chrono::nanoseconds poll,
                bool share_reads, int numa_node);
  // A data connection that has said its hello.
  Status Open(Deadline deadline, TcpStream* stream) const;
  // Shows and proves the token, has the server prove itself, and checks that it speaks this
  // version.
  Status SayHello(TcpStream& stream, Deadline deadline) const;

  const PeerDialer dialer_;
  const std::string token_;
  const std::string key_;
  const std::string host_;
  const std::string where_;                      // "host:port".
  const std::shared_ptr<const TlsContext> tls_;  // Null: plain.
  const std::shared_ptr<const TcpPeer> peer_;
  const int numa_node_;
  BufferPool buffers_;
  WireCostRegistry costs_;
  PollGroup polls_;
  std::unique_ptr<TcpReadSharing> sharing_;  // Null: they may not share.
};

}  // namespace dlsm
