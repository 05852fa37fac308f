// Accepts control and data connections on one TCP port. Each control connection passes the hello
// (version, secret) before a single frame of it reaches the handler; data connections are handed to
// the fabric.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/fabric.h"
#include "util/rpc/rpc.h"
#include "util/rpc/server_transport.h"
#include "util/rpc/token_table.h"

namespace dlsm {

struct RpcServerOptions {
  std::string bind_address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one, see RpcServer::port().
  std::string secret;
  NodeId node{};
  uint64_t epoch = 0;
  FabricKind fabric = FabricKind::kTcp;  // The one this memory node serves besides tcp.
  std::vector<RegionInfo> regions;       // Told to peers that have passed the hello.
  int connections_max = 1024;
  ServerTransportFactory transports;  // Besides tcp; empty: none. See verbs_rpc_server.h.
  TokenTable* tokens = nullptr;       // Outlives the server. Null: one of its own.

  // Each takes over the socket; where one is empty, such connections are refused.
  std::function<void(int socket)> on_data_connection;        // Of the tcp fabric.
  std::function<void(int socket)> on_queue_pair_connection;  // Of the verbs fabric.
};

class RpcServer {
 public:
  // `handler` outlives the server.
  static Status Start(const RpcServerOptions& options, RpcHandler* handler,
                      std::unique_ptr<RpcServer>* server);
  virtual ~RpcServer() = default;  // Closes all connections and joins all threads.
  virtual uint16_t port() const = 0;
};

}  // namespace dlsm
