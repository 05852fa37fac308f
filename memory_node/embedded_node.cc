// The memory node inside this process: what an application without servers uses.
#include <memory>
#include <utility>

#include "memory_node/memory_node.h"
#include "port/mutex.h"
#include "port/per_process.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/mapped/local_regions.h"
#include "util/memory/memory_pages.h"
#include "util/rpc/faulty_rpc.h"
#include "util/rpc/loopback_rpc.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr NodeId kEmbeddedNode{0};

// It dies with its only clients, so a lease protects nobody; and a process that was stopped for a
// while must not find its own session gone.
constexpr auto kLease = std::chrono::hours(24 * 365);

Status StartNode(const EmbeddedNodeOptions& options, std::unique_ptr<MemoryNode>* node) {
  RegionOptions region_options;
  region_options.bytes = options.bytes != 0 ? options.bytes : MostOfMemory(region_options.root);
  region_options.kind = FabricKind::kLocal;
  region_options.name = "embedded";
  std::unique_ptr<ExportedRegion> region;
  DLSM_RETURN_IF_ERROR(CreateRegion(region_options, &region));
  MemoryNodeOptions node_options;
  node_options.node = kEmbeddedNode;
  node_options.merge_threads = options.merge_threads;
  node_options.merge_schedule = options.merge_schedule;
  node_options.merge_bytes_per_second = options.merge_bytes_per_second;
  node_options.lease = kLease;
  node_options.clients_map_memory = true;
  node_options.full_remedy = "set Options::embedded_memory_bytes higher";
  DLSM_RETURN_IF_ERROR(MemoryNode::Start(node_options, std::move(region), node));
  const RegionInfo& info = (*node)->region().info();
  LocalRegions::Instance().Add(kEmbeddedNode, (*node)->boot(), info.id, (*node)->region().data(),
                               info.bytes);
  return Status::OK();
}

// The process's only one. Never destroyed: databases may be closed late during exit. A child of the
// process has one of its own, with databases of its own: the threads of its parent's do not exist
// there.
class EmbeddedNode {
 public:
  static EmbeddedNode& Instance() {
    static constinit port::PerProcess<EmbeddedNode> instance;
    return instance.Here();
  }

  // Starts it if no call has yet. *connection is unique among its clients.
  Status Join(const EmbeddedNodeOptions& options, MemoryNode** node, uint64_t* connection)
      LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    if (node_ == nullptr) DLSM_RETURN_IF_ERROR(StartNode(options, &node_));
    *node = node_.get();
    *connection = ++connections_;
    return Status::OK();
  }

 private:
  port::Mutex mutex_;
  std::unique_ptr<MemoryNode> node_ GUARDED_BY(mutex_);
  uint64_t connections_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

Status ConnectEmbeddedNode(const EmbeddedNodeOptions& node_options,
                           const FabricOptions& fabric_options,
                           std::unique_ptr<NodeConnection>* connection) {
  DLSM_RETURN_IF_ERROR(InjectConnectFault(fabric_options.faults));
  MemoryNode* node = nullptr;
  RpcPeer client;
  DLSM_RETURN_IF_ERROR(EmbeddedNode::Instance().Join(node_options, &node, &client.connection));
  client.name = "this process";
  FabricPeer peer;
  peer.node = node->id();
  peer.contents = node->contents();
  peer.boot = node->boot();
  peer.regions.push_back(node->region().info());
  FabricOptions local = fabric_options;
  local.kind = FabricKind::kLocal;
  // Nothing is waited for: the other end is this process.
  std::unique_ptr<FabricConnection> fabric;
  DLSM_RETURN_IF_ERROR(ConnectFabric(local, peer, Deadline::In(std::chrono::seconds(1)), &fabric));
  *connection = std::make_unique<NodeConnection>(
      InjectCallFaults(fabric_options.faults, NewLoopbackRpcClient(node, client)), std::move(peer),
      std::move(fabric));
  return Status::OK();
}

}  // namespace dlsm
