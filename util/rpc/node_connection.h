// A compute node's connection to one memory node: control (RPC) and data (fabric) together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/tls/tls_context.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/verbs/rpc_transport.h"

namespace dlsm {

// Thread-safe.
class NodeConnection {
 public:
  NodeConnection(std::unique_ptr<RpcClient> rpc, FabricPeer peer,
                 std::unique_ptr<FabricConnection> fabric,
                 std::shared_ptr<void> other_end = nullptr)
      : other_end_(std::move(other_end)),
        rpc_(std::move(rpc)),
        peer_(std::move(peer)),
        fabric_(std::move(fabric)) {}

  RpcClient& rpc() { return *rpc_; }
  FabricConnection& fabric() { return *fabric_; }
  const FabricPeer& peer() const { return peer_; }

 private:
  const std::shared_ptr<void> other_end_;  // What lives as long as this; may be null.
  // The data connections (fabric) end before the control connection that vouches for them.
  const std::unique_ptr<RpcClient> rpc_;
  const FabricPeer peer_;
  const std::unique_ptr<FabricConnection> fabric_;
};

struct NodeAddress {
  std::string host;
  uint16_t port = 0;
};

// What a client proves itself with, and knows memory nodes by.
struct Credentials {
  Credentials() = default;
  // The cluster's secret, which may be empty on both sides. Implicit: most clients have no more.
  Credentials(std::string cluster_secret)  // NOLINT(google-explicit-constructor)
      : secret(std::move(cluster_secret)) {}
  Credentials(const char* cluster_secret)  // NOLINT(google-explicit-constructor)
      : secret(cluster_secret) {}

  std::string secret;
  std::string access_name;  // In the memory nodes' access lists, with a secret of its own there.
  std::shared_ptr<const TlsContext> tls;  // Null: plain.
};

// Before the access name, where TLS knows clients by their secret.
inline constexpr std::string_view kTlsIdentityPrefix = "dLSM:";

// Makes credentials->tls, if `config` is on, for what the rest of *credentials says.
Status UseTls(const TlsConfig& config, Credentials* credentials);

struct NodeConnectionOptions {
  FabricOptions fabric;
  // What carries the calls; the device is fabric.verbs.
  RpcTransport rpc = RpcTransport::kTcp;
  Credentials credentials;
  std::string client_name;  // For the memory node's logs and messages.
};

// What reaches memory nodes in place of the network. Thread-safe.
class NodeConnector {
 public:
  virtual ~NodeConnector() = default;
  // As ConnectNode(); what options.fabric says of faults and guards is honoured.
  virtual Status Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                         Deadline deadline, std::unique_ptr<NodeConnection>* connection) = 0;
};

// Says the hello over TCP: versions are compared, both sides prove that they know the secret, and
// the memory node tells its id, contents, boot and regions. kind kLocal is an InvalidArgument here.
Status ConnectNode(const NodeAddress& address, const NodeConnectionOptions& options,
                   Deadline deadline, std::unique_ptr<NodeConnection>* connection);

// The same with the best fabric there is, whatever options.fabric.kind says: shm if the memory
// node serves it and is on this host; verbs if the memory node serves it and this machine has the
// device that options.fabric.verbs asks for; otherwise tcp.
Status ConnectNodeAuto(const NodeAddress& address, const NodeConnectionOptions& options,
                       Deadline deadline, std::unique_ptr<NodeConnection>* connection);

struct EmbeddedNodeOptions {
  // Where its contents are; empty: in memory alone. One process at a time has a directory open.
  std::string directory;
  // 0: most of what the machine has, and with a directory what that has, or as much as its disk
  // has. Pages are taken when first written.
  uint64_t bytes = 0;
  int merge_threads = 2;
  MergeSchedule merge_schedule = MergeSchedule::kGreedy;
  uint64_t merge_bytes_per_second = 0;  // 0: no limit.
};

// Connects to the memory node inside this process. One without a directory is started by the first
// call and lives as long as the process; later calls ignore what else `node` says. One with a
// directory lives as long as there are connections to it. Implemented in memory_node/, which this
// floor does not know.
Status ConnectEmbeddedNode(const EmbeddedNodeOptions& node, const FabricOptions& fabric,
                           std::unique_ptr<NodeConnection>* connection);

}  // namespace dlsm
