// A client of a memory node's RpcServer: makes channels, and makes another one when one has failed.
// Each begins with a TCP connection and the hello; what carries the calls then is its transport.
//
// A channel that has failed stays failed; the next Call() makes another one. So a call that was
// sent when its channel failed is answered by IOError, and whether it took effect is not known.
//
// A client is of one boot of the memory node. Where that has been restarted, the hello of the new
// channel tells another boot, and what this client's calls speak of (sessions, grants, numbers of
// requests, bytes that were written) is void there. No channel is made any more, every call returns
// an error that says so, and whether the memory node has its contents still; a new client has to be
// made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/deadline.h"
#include "util/rpc/auth/control_stream.h"
#include "util/rpc/auth/hello.h"
#include "util/rpc/call_ledger.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/channel/rpc_counts.h"
#include "util/rpc/node_connection.h"
#include "util/rpc/verbs/rpc_transport.h"

namespace dlsm {

class RpcChannel;

// Thread-safe.
class NodeRpcClient final : public RpcClient {
 public:
  // Connects and says the hello. While nobody listens at `address` it tries again until
  // `deadline`. *info is what the memory node told of itself. `transport` is what carries the
  // calls, or the reason why it cannot is the error.
  static Status Connect(const NodeAddress& address, const Credentials& credentials,
                        const std::string& client_name, Deadline deadline, NodeInfo* info,
                        std::unique_ptr<NodeRpcClient>* client,
                        const RpcTransportOptions& transport = {});
  ~NodeRpcClient() override;

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override;
  CallTotals Totals() const override { return ledger_.Totals(); }

  Status lost() override LOCKS_EXCLUDED(mutex_);
  // Over tcp.
  bool WhenDisconnected(std::function<void()> told) override LOCKS_EXCLUDED(told_mutex_);

  // What the channel in use has had its device do.
  RpcCounts counts() LOCKS_EXCLUDED(mutex_);

 private:
  NodeRpcClient(const NodeAddress& address, ClientIdentity identity,
                std::shared_ptr<const TlsContext> tls, const RpcTransportOptions& transport);

  // Connects, with TLS where there is to be some, and says the hello. `patient`: whether to try
  // again while the connection is refused.
  Status ConnectAndHello(bool patient, Deadline deadline, ControlStream* control,
                         NodeInfo* info) const;
  Status MakeChannel(ControlStream control, Deadline deadline,
                     std::shared_ptr<RpcChannel>* channel);
  void TellDisconnected() LOCKS_EXCLUDED(told_mutex_);

  // The channel that works; made again if the last one has failed.
  Status WorkingChannel(Deadline deadline, std::shared_ptr<RpcChannel>* channel);
  Status Reconnect(Deadline deadline, std::shared_ptr<RpcChannel>* channel);

  const NodeAddress address_;
  // Where it was reached first: who connects again resolves no name, which knows no deadline.
  std::string reached_host_;
  const std::string where_;
  const std::shared_ptr<const TlsContext> tls_;  // Null: plain.
  const RpcTransportOptions transport_;
  // Said in the hello of each channel. Its boot is that of the first hello, its data token that of
  // the last one; all else is constant.
  ClientIdentity identity_;
  ContentsId contents_{};  // As the first hello told.
  CallLedger ledger_;

  port::Mutex told_mutex_;  // Taken after all others.
  std::function<void()> told_ GUARDED_BY(told_mutex_);

  port::Mutex mutex_;  // Protects what follows; not held while the network is waited for.
  port::CondVar connected_{mutex_};
  bool connecting_ GUARDED_BY(mutex_) = false;  // One caller at a time makes a channel.
  std::shared_ptr<RpcChannel> channel_ GUARDED_BY(mutex_);
  Status lost_ GUARDED_BY(mutex_);  // Not OK: the memory node is in another boot.
};

}  // namespace dlsm
