#include "util/rpc/node_connection.h"

#include <fmt/core.h>
#include <unistd.h>

#include <utility>

#include "util/log.h"
#include "util/rpc/faulty_rpc.h"
#include "util/rpc/rpc_client.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A memory node that has passed the hello.
struct Reached {
  std::unique_ptr<NodeRpcClient> rpc;
  FabricPeer peer;
  std::string where;
  FabricKind served = FabricKind::kTcp;  // Besides tcp.
};

Status Reach(const NodeAddress& address, const NodeConnectionOptions& options, Deadline deadline,
             Reached* reached) {
  DLSM_RETURN_IF_ERROR(InjectConnectFault(options.fabric.faults));
  NodeInfo info;
  DLSM_RETURN_IF_ERROR(NodeRpcClient::Connect(address, options.credentials, options.client_name,
                                              deadline, &info, &reached->rpc,
                                              {options.rpc, options.fabric.verbs}));
  reached->where = fmt::format("{}:{}", address.host, address.port);
  reached->served = info.fabric;
  reached->peer.node = info.node;
  reached->peer.contents = info.contents;
  reached->peer.boot = info.boot;
  reached->peer.persistence = info.persistence;
  reached->peer.has_files = info.has_files;
  reached->peer.host = address.host;
  reached->peer.port = address.port;
  reached->peer.data_key = DataKey(options.credentials.secret, info.data_token);
  reached->peer.data_token = std::move(info.data_token);
  reached->peer.tls = options.credentials.tls;
  reached->peer.regions = std::move(info.regions);
  return Status::OK();
}

// Whether this process can map the memory node's regions.
Status CheckShm(const Reached& reached) {
  for (const RegionInfo& region : reached.peer.regions) {
    if (region.shm_path.empty()) {
      return Status::InvalidArgument(
          fmt::format("memory node {} does not serve the shm fabric, or not to this client; start "
                      "Server with --fabric=shm (and --access_shares_memory, with an access list), "
                      "or use the tcp fabric",
                      reached.where));
    }
    if (access(region.shm_path.c_str(), F_OK) != 0) {
      return Status::InvalidArgument(
          fmt::format("memory node {} is not on this host ({} does not exist here); use the tcp "
                      "fabric",
                      reached.where, region.shm_path));
    }
    if (access(region.shm_path.c_str(), R_OK | W_OK) != 0) {
      return Status::InvalidArgument(
          fmt::format("no permission to map {} of memory node {}; run as the user of its Server, "
                      "or use the tcp fabric",
                      region.shm_path, reached.where));
    }
  }
  return Status::OK();
}

Status CheckVerbs(const Reached& reached) {
  if (reached.served == FabricKind::kVerbs) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("memory node {} does not serve the verbs fabric; start Server with "
                  "--fabric=verbs, or use the tcp fabric",
                  reached.where));
}

Status JoinFabric(Reached reached, const FabricOptions& options, Deadline deadline,
                  std::unique_ptr<NodeConnection>* connection) {
  std::unique_ptr<FabricConnection> fabric;
  DLSM_RETURN_IF_ERROR(ConnectFabric(options, reached.peer, deadline, &fabric));
  *connection =
      std::make_unique<NodeConnection>(InjectCallFaults(options.faults, std::move(reached.rpc)),
                                       std::move(reached.peer), std::move(fabric));
  return Status::OK();
}

}  // namespace

Status UseTls(const TlsConfig& config, Credentials* credentials) {
  if (!config.on()) return Status::OK();
  return TlsContext::ForClient(config, std::string(kTlsIdentityPrefix) + credentials->access_name,
                               TlsKey(credentials->secret), &credentials->tls);
}

Status ConnectNode(const NodeAddress& address, const NodeConnectionOptions& options,
                   Deadline deadline, std::unique_ptr<NodeConnection>* connection) {
  if (options.fabric.kind == FabricKind::kLocal) {
    return Status::InvalidArgument(
        fmt::format("the local fabric reaches only this process's embedded memory node, not {}:{}; "
                    "use shm or tcp",
                    address.host, address.port));
  }
  Reached reached;
  DLSM_RETURN_IF_ERROR(Reach(address, options, deadline, &reached));
  if (options.fabric.kind == FabricKind::kShm) DLSM_RETURN_IF_ERROR(CheckShm(reached));
  if (options.fabric.kind == FabricKind::kVerbs) DLSM_RETURN_IF_ERROR(CheckVerbs(reached));
  return JoinFabric(std::move(reached), options.fabric, deadline, connection);
}

Status ConnectNodeAuto(const NodeAddress& address, const NodeConnectionOptions& options,
                       Deadline deadline, std::unique_ptr<NodeConnection>* connection) {
  Reached reached;
  DLSM_RETURN_IF_ERROR(Reach(address, options, deadline, &reached));
  FabricOptions fabric = options.fabric;
  const Status shm = CheckShm(reached);
  if (shm.ok()) {
    fabric.kind = FabricKind::kShm;
  } else if (CheckVerbs(reached).ok()) {
    const Status verbs = CheckVerbsAtomics(options.fabric.verbs);
    fabric.kind = verbs.ok() ? FabricKind::kVerbs : FabricKind::kTcp;
    if (!verbs.ok()) {
      Log().Warn("memory node {} serves RDMA, but the tcp fabric is used: {}", reached.where,
                 verbs.message().ToStringView());
    }
  } else {
    fabric.kind = FabricKind::kTcp;
    Log().Info("using the tcp fabric: {}", shm.message().ToStringView());
  }
  return JoinFabric(std::move(reached), fabric, deadline, connection);
}

}  // namespace dlsm
