#include "db/memory_node_session.h"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "util/cluster_config.h"
#include "util/log.h"
#include "util/secret_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A memory node sees that a process is gone a moment after it is: until then, the database is open.
constexpr std::chrono::milliseconds kDisconnectNoticed{500};

FabricOptions FabricOf(const Options& options) {
  FabricOptions fabric;
  fabric.simulated_rtt_ns = options.simulated_rtt_ns;
  fabric.simulated_gbit_per_second = options.simulated_gbit_per_second;
  fabric.faults = options.fault_injector;
  return fabric;
}

// The memory nodes that the options name; none: the embedded one.
Status MemoryNodesOf(const Options& options, std::vector<HostPort>* nodes) {
  if (!options.config.empty() && !options.memory_nodes.empty()) {
    return Status::InvalidArgument("both Options::config and Options::memory_nodes are set",
                                   "set only one of them");
  }
  if (!options.memory_nodes.empty()) return ParseHostPorts(options.memory_nodes, nodes);
  if (options.config.empty()) return Status::OK();
  ClusterConfig config;
  DLSM_RETURN_IF_ERROR(ReadClusterConfig(options.config, &config));
  if (options.compute_node_id >= config.compute_nodes.size()) {
    return Status::InvalidArgument("compute_node_id " + std::to_string(options.compute_node_id) +
                                       " is not in " + options.config,
                                   "it names " + std::to_string(config.compute_nodes.size()) +
                                       " compute nodes, counted from 0");
  }
  *nodes = config.memory_nodes;
  return Status::OK();
}

Status ConnectEmbedded(const Options& options, std::unique_ptr<NodeConnection>* connection) {
  if (!options.fabric.empty() && options.fabric != "local") {
    return Status::InvalidArgument(
        "fabric \"" + options.fabric + "\" needs a memory node",
        "set Options::config or Options::memory_nodes, or leave the fabric empty");
  }
  if (!options.rpc_transport.empty()) {
    return Status::InvalidArgument("the embedded memory node is called without a transport",
                                   "leave Options::rpc_transport empty");
  }
  EmbeddedNodeOptions node;
  node.bytes = options.embedded_memory_bytes;
  node.merge_threads = options.max_background_compactions * options.max_subcompactions;
  node.merge_schedule = options.merge_scheduler;
  node.merge_bytes_per_second = options.compaction_bandwidth;
  return ConnectEmbeddedNode(node, FabricOf(options), connection);
}

// TimedOut says that the database's holder is gone and its lease about to end; Busy, that it is not
// known to be gone.
bool WorthWaitingFor(const Status& status, Deadline noticed) {
  return status.IsTimedOut() || (status.IsBusy() && !noticed.Passed());
}

}  // namespace

Status ConnectToMemoryNode(const Options& options, std::unique_ptr<NodeConnection>* connection) {
  std::vector<HostPort> nodes;
  DLSM_RETURN_IF_ERROR(MemoryNodesOf(options, &nodes));
  if (nodes.empty()) return ConnectEmbedded(options, connection);
  const HostPort& node = nodes[options.compute_node_id % nodes.size()];
  NodeConnectionOptions connect;
  connect.fabric = FabricOf(options);
  DLSM_RETURN_IF_ERROR(ParseVerbsOptions(options.rdma_device, &connect.fabric.verbs));
  if (!options.rpc_transport.empty()) {
    const std::optional<RpcTransport> transport = RpcTransportFromName(options.rpc_transport);
    if (!transport.has_value()) {
      return Status::InvalidArgument("unknown rpc_transport \"" + options.rpc_transport + "\"",
                                     "known are tcp, verbs and ring");
    }
    connect.rpc = *transport;
  }
  connect.client_name = "process " + std::to_string(getpid());
  if (!options.secret_file.empty()) {
    DLSM_RETURN_IF_ERROR(ReadSecretFile(options.secret_file, &connect.secret));
  }
  const NodeAddress address{node.host, node.port};
  const Deadline deadline = Deadline::In(std::chrono::milliseconds(options.open_timeout_ms));
  if (options.fabric.empty()) return ConnectNodeAuto(address, connect, deadline, connection);
  const std::optional<FabricKind> kind = FabricKindFromName(options.fabric);
  if (!kind.has_value()) {
    return Status::InvalidArgument("unknown fabric \"" + options.fabric + "\"",
                                   "known are local, shm, tcp and verbs");
  }
  if (*kind == FabricKind::kLocal) {
    return Status::InvalidArgument("fabric \"local\" reaches the embedded memory node only",
                                   "use shm, tcp or verbs, or name no memory node");
  }
  connect.fabric.kind = *kind;
  return ConnectNode(address, connect, deadline, connection);
}

MemoryNodeSession::MemoryNodeSession(std::unique_ptr<NodeConnection> connection,
                                     OpenDatabaseReply opened, std::chrono::nanoseconds timeout)
    : connection_(std::move(connection)),
      opened_(std::move(opened)),
      timeout_(timeout),
      manifest_version_(opened_.manifest_version) {}

MemoryNodeSession::~MemoryNodeSession() {
  const Status status = Close();
  if (!status.ok()) Log().warn("the session is left to its lease: {}", status.ToString());
}

Status MemoryNodeSession::Open(const Options& options, const std::string& name,
                               std::unique_ptr<MemoryNodeSession>* session) {
  std::unique_ptr<NodeConnection> connection;
  DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options, &connection));
  OpenDatabaseRequest request;
  request.name = name;
  request.create_if_missing = options.create_if_missing;
  request.error_if_exists = options.error_if_exists;
  const auto timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  const Deadline deadline = Deadline::In(std::chrono::milliseconds(options.open_timeout_ms));
  const Deadline noticed = Deadline::In(kDisconnectNoticed);
  std::string reply_bytes;
  Status status;
  while (true) {
    status = connection->rpc().Call(Method::kOpenDatabase, request.Encode(), &reply_bytes,
                                    Deadline::In(timeout));
    if (!WorthWaitingFor(status, noticed) || deadline.Passed()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  DLSM_RETURN_IF_ERROR(status);
  OpenDatabaseReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(reply_bytes));
  session->reset(new MemoryNodeSession(std::move(connection), std::move(reply), timeout));
  return Status::OK();
}

Status MemoryNodeSession::Put(const std::string& manifest, std::vector<RemoteSpan> live) {
  PutManifestRequest request;
  request.session = opened_.session;
  request.version = manifest_version_ + 1;
  request.manifest = manifest;
  request.live = std::move(live);
  std::string reply;
  const Status status = connection_->rpc().Call(Method::kPutManifest, request.Encode(), &reply,
                                                Deadline::In(timeout_));
  // A lost answer leaves open whether the version was taken: the next one is larger either way.
  ++manifest_version_;
  return status;
}

Status MemoryNodeSession::Close() {
  if (std::exchange(closed_, true)) return Status::OK();
  CloseDatabaseRequest request;
  request.session = opened_.session;
  std::string reply;
  return connection_->rpc().Call(Method::kCloseDatabase, request.Encode(), &reply,
                                 Deadline::In(timeout_));
}

}  // namespace dlsm
