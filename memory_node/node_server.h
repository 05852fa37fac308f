// A memory node and everything that makes it reachable: what the Server process runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "memory_node/memory_node.h"
#include "util/fabric/fabric_server.h"
#include "util/message_order.h"
#include "util/rpc/rpc_server.h"
#include "util/rpc/token_table.h"

namespace dlsm {

struct NodeServerOptions {
  std::string bind_address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one.
  uint64_t bytes = 0;
  FabricKind fabric = FabricKind::kShm;  // kShm and kVerbs serve tcp as well.
  VerbsOptions verbs;                    // For kVerbs.
  int fabric_threads = 1;                // For tcp.
  int numa_node = -1;
  bool huge_pages = true;
  std::string secret;
  int connections_max = 1024;
  MemoryNodeOptions node;
};

class NodeServer {
 public:
  static Status Start(const NodeServerOptions& options, std::unique_ptr<NodeServer>* server);
  // Closes all connections, cancels merges and gives the memory back.
  ~NodeServer();

  uint16_t port() const { return rpc_->port(); }
  MemoryNode& node() { return *node_; }
  const MemoryNode& node() const { return *node_; }
  // The fabric, and its device where it has one; for people.
  std::string DescribeFabric() const;
  // None where verbs is not served.
  VerbsEventCounts DeviceEvents() const;

 private:
  explicit NodeServer(const NodeServerOptions& options);
  // Everything that `token` gives access to ends.
  Status CutOff(const std::string& token);

  // In the order in which they need each other.
  MessageOrder order_;  // Of fabric threads, RPC threads and merges.
  std::unique_ptr<MemoryNode> node_;
  std::unique_ptr<RpcHandler> ordered_node_;
  std::unique_ptr<TcpFabricServer> fabric_;
  std::unique_ptr<VerbsFabricServer> verbs_;  // Null where it is not served.
  TokenTable tokens_;
  std::unique_ptr<RpcServer> rpc_;
  FabricKind kind_ = FabricKind::kTcp;
};

}  // namespace dlsm
