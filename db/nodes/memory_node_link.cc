#include "db/nodes/memory_node_link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "util/cluster_config.h"
#include "util/secret_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

FabricOptions FabricOf(const Options& options, std::shared_ptr<const TransferGuard> guard) {
  FabricOptions fabric;
  fabric.guard = std::move(guard);
  fabric.tcp_poll = std::chrono::microseconds(options.tcp_poll_us);
  fabric.tcp_share_reads = options.tcp_share_reads;
  static_assert(kNoNumaNode == Options::kNoNumaNode);
  static_assert(kNumaNodeOfDevice == Options::kNumaNodeOfDevice);
  fabric.numa_node = options.numa_node;
  fabric.simulated_rtt_ns = options.simulated_rtt_ns;
  fabric.simulated_gbit_per_second = options.simulated_gbit_per_second;
  fabric.faults = options.fault_injector;
  return fabric;
}

Status UnknownFabric(const std::string& name) {
  return Status::InvalidArgument("unknown fabric \"" + name + "\"",
                                 "known are local, shm, tcp and verbs");
}

Status ConnectEmbedded(const Options& options, std::unique_ptr<NodeConnection>* connection,
                       std::shared_ptr<const TransferGuard> guard) {
  if (!options.fabric.empty() && !FabricKindFromName(options.fabric).has_value()) {
    return UnknownFabric(options.fabric);
  }
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
  node.directory = options.embedded_dir;
  node.bytes = options.embedded_memory_bytes;
  node.merge_threads = options.max_background_compactions * options.max_subcompactions;
  node.merge_schedule = options.merge_scheduler;
  node.merge_bytes_per_second = options.compaction_bandwidth;
  return ConnectEmbeddedNode(node, FabricOf(options, std::move(guard)), connection);
}

Status NamedNodes(const Options& options, std::vector<HostPort>* nodes) {
  if (!options.config.empty() && !options.memory_nodes.empty()) {
    return Status::InvalidArgument("both Options::config and Options::memory_nodes are set",
                                   "set only one of them");
  }
  if (!options.embedded_dir.empty() && (!options.config.empty() || !options.memory_nodes.empty())) {
    return Status::InvalidArgument(
        "Options::embedded_dir is set, and so are memory nodes of other processes",
        "leave one of them empty; other processes have directories by Server --data_dir");
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

// A report that three heartbeats should have replaced is old. While nothing at all is merged, a
// merge is waited for as long as six other calls together.
MergeLoadMonitor::Config MonitorConfig(const Options& options) {
  constexpr int kReportIntervals = 3;
  constexpr int kPatienceTimeouts = 6;
  MergeLoadMonitor::Config monitor;
  monitor.report_lifetime = kHeartbeatIntervalMax * kReportIntervals;
  monitor.patience = std::chrono::milliseconds(options.operation_timeout_ms) * kPatienceTimeouts;
  return monitor;
}

}  // namespace

std::chrono::milliseconds HeartbeatIntervalFor(std::chrono::milliseconds lease) {
  return std::min(SleepingHeartbeatIntervalFor(lease), kHeartbeatIntervalMax);
}

std::chrono::milliseconds SleepingHeartbeatIntervalFor(std::chrono::milliseconds lease) {
  return std::clamp(lease / 4, std::chrono::milliseconds(20), kSleepingHeartbeatIntervalMax);
}

Status MemoryNodesOf(const Options& options, std::vector<std::string>* nodes) {
  std::vector<HostPort> named;
  DLSM_RETURN_IF_ERROR(NamedNodes(options, &named));
  nodes->clear();
  for (const HostPort& node : named) nodes->push_back(node.ToString());
  if (nodes->empty()) nodes->emplace_back();
  return Status::OK();
}

Status ConnectToMemoryNode(const Options& options, const std::string& name,
                           std::unique_ptr<NodeConnection>* connection,
                           std::shared_ptr<const TransferGuard> guard) {
  if (name.empty()) return ConnectEmbedded(options, connection, std::move(guard));
  HostPort node;
  DLSM_RETURN_IF_ERROR(ParseHostPort(name, &node));
  NodeConnectionOptions connect;
  connect.fabric = FabricOf(options, std::move(guard));
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
    DLSM_RETURN_IF_ERROR(ReadSecretFile(options.secret_file, &connect.credentials.secret));
  }
  connect.credentials.access_name = options.access_name;
  TlsConfig tls;
  tls.enabled = options.tls;
  tls.ca_file = options.tls_ca_file;
  tls.certificate_file = options.tls_certificate_file;
  tls.key_file = options.tls_key_file;
  DLSM_RETURN_IF_ERROR(UseTls(tls, &connect.credentials));
  const NodeAddress address{node.host, node.port};
  const Deadline deadline = Deadline::In(std::chrono::milliseconds(options.open_timeout_ms));
  if (options.node_connector != nullptr) {
    return options.node_connector->Connect(address, connect, deadline, connection);
  }
  if (options.fabric.empty()) return ConnectNodeAuto(address, connect, deadline, connection);
  const std::optional<FabricKind> kind = FabricKindFromName(options.fabric);
  if (!kind.has_value()) return UnknownFabric(options.fabric);
  if (*kind == FabricKind::kLocal) {
    return Status::InvalidArgument("fabric \"local\" reaches the embedded memory node only",
                                   "use shm, tcp or verbs, or name no memory node");
  }
  connect.fabric.kind = *kind;
  return ConnectNode(address, connect, deadline, connection);
}

MemoryNodeLink::MemoryNodeLink(const Options& options, const std::string& node,
                               std::unique_ptr<NodeConnection> connection,
                               const MergeScheduler* local_merges)
    : node_(node),
      connection_(std::move(connection)),
      queue_pairs_(&connection_->fabric(), &connection_->rpc(),
                   std::chrono::milliseconds(options.operation_timeout_ms)),
      merge_load_(MonitorConfig(options), local_merges) {}

Status MemoryNodeLink::Open(const Options& options, const std::string& node,
                            const MergeScheduler* local_merges,
                            std::unique_ptr<MemoryNodeLink>* link,
                            std::shared_ptr<const TransferGuard> guard) {
  std::unique_ptr<NodeConnection> connection;
  DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options, node, &connection, std::move(guard)));
  link->reset(new MemoryNodeLink(options, node, std::move(connection), local_merges));
  return Status::OK();
}

}  // namespace dlsm
