// A memory node's end of a connection's calls when they do not come over its control connection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/channel/rpc_counts.h"

namespace dlsm {

// All but construction and destruction is for one thread, the connection's. Answers of the handler
// may come from any, also after End(): they are dropped then.
class ServerTransport {
 public:
  virtual ~ServerTransport() = default;

  // Hands what has come to the handler. *progress: whether there was anything.
  virtual Status Poll(bool* progress) = 0;
  // *ready: nothing can be missed if the thread now sleeps until events() is readable. Otherwise
  // Poll() first: that is how a transport polls for a while before it sleeps.
  virtual Status PrepareToSleep(bool* ready) = 0;
  virtual int events() const = 0;
  // events() is readable.
  virtual void TakeEvent() = 0;
  // The client reaches nothing here any more.
  virtual void End() = 0;
  // From any thread.
  virtual RpcCounts counts() = 0;
};

// What such an end needs of its connection.
struct ServerTransportContext {
  RpcPeer peer;
  RpcHandler* handler = nullptr;
  int socket = -1;                // The control connection: its address tells which way to go.
  std::function<void()> wake_up;  // Makes the connection's thread call Poll(). From any thread.
};

// Makes the end for a client's offer (transport_messages.h), and the answer to it.
using ServerTransportFactory =
    std::function<Status(const ServerTransportContext& context, const Slice& offer,
                         std::shared_ptr<ServerTransport>* transport, std::string* answer)>;

}  // namespace dlsm
