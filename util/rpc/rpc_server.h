// Accepts control and data connections on one TCP port. Each control connection passes the hello
// (version, secret) before a single frame of it reaches the handler; data connections are handed to
// the fabric.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/fabric/tls/tls_context.h"
#include "util/rpc/auth/access_list.h"
#include "util/rpc/auth/token_table.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/channel/server_transport.h"

namespace dlsm {

struct RpcServerOptions {
  std::string bind_address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one, see RpcServer::port().
  std::string secret;
  NodeId node{};
  ContentsId contents{};
  BootId boot{};
  PersistenceId persistence{};
  bool has_files = false;
  FabricKind fabric = FabricKind::kTcp;  // The one this memory node serves besides tcp.
  std::vector<RegionInfo> regions;       // Told to peers that have passed the hello.
  int connections_max = 1024;
  // Connections that have not proved themselves: the oldest goes when another one comes.
  int strangers_max = 256;
  // A request that has begun to come, and replies that wait to be taken, are not waited for longer
  // without any progress.
  std::chrono::milliseconds progress_timeout{10'000};
  std::shared_ptr<const TlsContext> tls;     // Null: no TLS, and clients with TLS are refused.
  std::shared_ptr<const AccessList> access;  // Null: all clients have `secret`.
  bool access_shares_memory = false;         // Clients of `access` are told of shm and verbs.
  ServerTransportFactory transports;         // Besides tcp; empty: none. See verbs_rpc_server.h.
  TokenTable* tokens = nullptr;              // Outlives the server. Null: one of its own.

  // Of the tcp fabric: its hello, which says whose token it is, and what takes a connection over
  // then. Where they are empty, such connections are refused.
  std::function<Status(TcpStream& stream, Deadline deadline, std::string* token)>
      greet_data_connection;
  std::function<void(TcpStream stream, const std::string& token)> on_data_connection;
  // In its place, where there is no descriptor for that. May be empty.
  std::function<Status(TcpStream& stream, Deadline deadline)> refuse_data_connection;
  // Of the verbs fabric: the same, over a socket without TLS.
  std::function<Status(int socket, Deadline deadline, std::string* token)>
      greet_queue_pair_connection;
  std::function<Status(int socket, const std::string& token)> on_queue_pair_connection;
  std::function<Status(int socket, Deadline deadline)> refuse_queue_pair_connection;
};

// Of connections, since the start.
struct ConnectionCounts {
  uint64_t control = 0;  // Control connections that have proved themselves: now.
  // They did not prove themselves, asked for what is not served, or broke off.
  uint64_t refused = 0;
  uint64_t evicted = 0;  // To make room for others, before they had proved themselves.
};

class RpcServer {
 public:
  // `handler` outlives the server.
  static Status Start(const RpcServerOptions& options, RpcHandler* handler,
                      std::unique_ptr<RpcServer>* server);
  virtual ~RpcServer() = default;  // Closes all connections and joins all threads.
  virtual uint16_t port() const = 0;
  virtual ConnectionCounts Counts() const = 0;
};

}  // namespace dlsm
