// A memory node and everything that makes it reachable: what the Server process runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "memory_node/accounts/extent_owners.h"
#include "memory_node/memory_node.h"
#include "util/fabric/tcp/tcp_server.h"
#include "util/fabric/tls/tls_context.h"
#include "util/fabric/verbs/verbs_server.h"
#include "util/message_order.h"
#include "util/numa.h"
#include "util/rpc/auth/access_list.h"
#include "util/rpc/auth/token_table.h"
#include "util/rpc/channel/server_transport.h"
#include "util/rpc/node_connection.h"
#include "util/rpc/rpc_server.h"

namespace dlsm {

struct NodeServerOptions {
  std::string bind_address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one.
  uint64_t bytes = 0;
  std::string data_dir;                  // Where its contents are; empty: in memory alone.
  FabricKind fabric = FabricKind::kShm;  // kShm and kVerbs serve tcp as well.
  VerbsOptions verbs;                    // For kVerbs.
  int fabric_threads = 0;                // For tcp. 0: one for each processor, 4 at most.
  // Of these threads: how long each may poll for requests before it sleeps; see adaptive_poll.h.
  std::chrono::microseconds tcp_poll{50};
  // Of the region's memory, which comes from there or from nowhere, and of all threads.
  int numa_node = kNoNumaNode;
  bool huge_pages = true;
  bool take_all_pages = false;  // At the start, and not when each is first written.
  std::string secret;
  TlsConfig tls;
  // Clients with secrets and databases of their own; may be replaced at any time. Null: there are
  // none, for ever.
  std::shared_ptr<AccessList> access;
  bool access_shares_memory = false;  // They may use shm and verbs, which reach all databases'.
  int connections_max = 1024;
  MemoryNodeOptions node;
};

// What it counts may be asked for by any thread; started and destroyed by one.
class NodeServer {
 public:
  // No client is let in before all of it has started; on an error nothing is left running.
  static Status Start(const NodeServerOptions& options, std::unique_ptr<NodeServer>* server);
  // Closes all connections, cancels merges and gives the memory back.
  ~NodeServer();

  uint16_t port() const { return rpc_->port(); }
  MemoryNode& node() { return *node_; }
  const MemoryNode& node() const { return *node_; }
  // The fabric, and its device where it has one; for people.
  std::string DescribeFabric() const;
  // Where its memory and its threads are; for people.
  std::string DescribePlace() const;
  // None where verbs is not served.
  VerbsEventCounts DeviceEvents() const;
  // Of the threads that answer one-sided requests over tcp.
  WaitCounts DataWaits() const { return fabric_->Waits(); }
  uint64_t DataConnectionsHandedOver() const { return fabric_->HandedOver(); }
  size_t DataConnections() const { return fabric_->Connections(); }
  TcpTraffic DataTraffic() const { return fabric_->Traffic(); }
  ConnectionCounts Connections() const { return rpc_->Counts(); }

 private:
  explicit NodeServer(const NodeServerOptions& options);
  void AllowToken(const std::string& token, const ClientRights& owner);
  // The parts of Start(): the memory node, what serves its memory one-sided, and what the server of
  // calls is to do. *transports: what carries calls besides tcp.
  Status MakeTls(const NodeServerOptions& options);
  Status StartMemoryNode();
  // What the directory has, and the region that is mapped from it.
  Status OpenDirectory(NodeStore* store, std::unique_ptr<ExportedRegion>* region) const;
  // Data tokens of clients that go on.
  void RestoreTokens();
  Status StartFabrics(ServerTransportFactory* transports);
  RpcServerOptions RpcOptions(ServerTransportFactory transports);
  // What TLS knows a client by; of one that is not known, what nobody has.
  std::string TlsKeyOf(const std::string& identity) const;
  // Everything that `token` gives access to ends.
  Status CutOff(const std::string& token);

  // In the order in which they need each other.
  const NodeServerOptions options_;
  Status threads_on_node_;                       // Or why they are not there.
  std::string nobodys_secret_;                   // Drawn at random; empty where there is no TLS.
  std::shared_ptr<const TlsContext> tls_;        // Null: plain.
  Credentials peer_credentials_;                 // For other memory nodes.
  std::unique_ptr<ExtentOwners> extent_owners_;  // Null where there is no access list.
  MessageOrder order_;                           // Of fabric threads, RPC threads and merges.
  std::unique_ptr<MemoryNode> node_;
  std::unique_ptr<RpcHandler> ordered_node_;
  std::unique_ptr<TcpFabricServer> fabric_;
  std::unique_ptr<VerbsFabricServer> verbs_;  // Null where it is not served.
  TokenTable tokens_;
  std::unique_ptr<RpcServer> rpc_;
};

}  // namespace dlsm
