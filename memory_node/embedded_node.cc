// The memory node inside this process: what an application without servers uses.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "memory_node/memory_node.h"
#include "memory_node/store/directory.h"
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

constexpr uint64_t kMergeReserveBytesMax = uint64_t{1} << 30;

// One memory node in this process. It ends with the last connection to it; one without a directory,
// which nothing could bring back, is kept for as long as the process lives.
class EmbeddedNode {
 public:
  static Status Start(const EmbeddedNodeOptions& options, std::shared_ptr<EmbeddedNode>* started);
  ~EmbeddedNode() {
    if (node_ != nullptr) LocalRegions::Instance().Remove(kEmbeddedNode, node_->boot());
  }

  MemoryNode& node() { return *node_; }
  // Unique among its clients.
  uint64_t NewConnection() { return connections_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  static Status OpenDirectory(const EmbeddedNodeOptions& options, RegionOptions* region_options,
                              NodeStore* store, std::unique_ptr<ExportedRegion>* region);

  std::unique_ptr<MemoryNode> node_;
  std::atomic<uint64_t> connections_{0};
};

// As much as the disk could have. The file takes room as it is used.
Status DiskBytes(const std::string& path, uint64_t* bytes) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::absolute(path, error).parent_path();
  const std::filesystem::space_info space = std::filesystem::space(parent, error);
  if (error) {
    return Status::IOError(fmt::format("cannot use {}: {}; make the directory that it is to be in",
                                       path, error.message()));
  }
  constexpr uint64_t kLeast = uint64_t{1} << 30;
  *bytes = std::max(kLeast, space.capacity / kLeast * kLeast);
  return Status::OK();
}

Status EmbeddedNode::OpenDirectory(const EmbeddedNodeOptions& options,
                                   RegionOptions* region_options, NodeStore* store,
                                   std::unique_ptr<ExportedRegion>* region) {
  DirectoryOptions wanted;
  wanted.path = options.directory;
  wanted.capacity_bytes = options.bytes;
  wanted.clients_outlive = false;  // They were the process that had the directory.
  DLSM_RETURN_IF_ERROR(DiskBytes(options.directory, &wanted.new_capacity_bytes));
  std::unique_ptr<Directory> directory;
  Directory::Opened opened;
  DLSM_RETURN_IF_ERROR(Directory::Open(wanted, &opened, &directory));
  region_options->bytes = opened.contents.capacity_bytes;
  region_options->file = directory->region_descriptor();
  region_options->file_path = directory->region_path();
  DLSM_RETURN_IF_ERROR(CreateRegion(*region_options, region));
  directory->MappedAt((*region)->data(), region_options->bytes);
  store->files = std::move(directory);
  store->contents = std::move(opened.contents);
  store->state = std::move(opened.state);
  store->rows = std::move(opened.rows);
  return Status::OK();
}

Status EmbeddedNode::Start(const EmbeddedNodeOptions& options,
                           std::shared_ptr<EmbeddedNode>* started) {
  RegionOptions region_options;
  region_options.kind = FabricKind::kLocal;
  region_options.name = "embedded";
  MemoryNodeOptions node_options;
  node_options.node = kEmbeddedNode;
  node_options.merge_threads = options.merge_threads;
  node_options.merge_schedule = options.merge_schedule;
  node_options.merge_bytes_per_second = options.merge_bytes_per_second;
  node_options.lease = kLease;
  node_options.clients_map_memory = true;
  node_options.full_remedy = "set Options::embedded_memory_bytes higher";
  auto made = std::make_shared<EmbeddedNode>();
  std::unique_ptr<ExportedRegion> region;
  if (options.directory.empty()) {
    region_options.bytes = options.bytes != 0 ? options.bytes : MostOfMemory(region_options.root);
    DLSM_RETURN_IF_ERROR(CreateRegion(region_options, &region));
    DLSM_RETURN_IF_ERROR(MemoryNode::Start(node_options, std::move(region), &made->node_));
  } else {
    NodeStore store;
    DLSM_RETURN_IF_ERROR(OpenDirectory(options, &region_options, &store, &region));
    // Of a region as large as the disk, an eighth would be out of proportion.
    node_options.merge_reserve_bytes =
        std::min(DefaultMergeReserve(region->info().bytes), kMergeReserveBytesMax);
    DLSM_RETURN_IF_ERROR(
        MemoryNode::Start(node_options, std::move(store), std::move(region), &made->node_));
  }
  const RegionInfo& info = made->node_->region().info();
  LocalRegions::Instance().Add(kEmbeddedNode, made->node_->boot(), info.id,
                               made->node_->region().data(), info.bytes);
  *started = std::move(made);
  return Status::OK();
}

// Those of the process. Never destroyed: databases may be closed late during exit. A child of the
// process has some of its own, with databases of its own: the threads of its parent's do not exist
// there.
class EmbeddedNodes {
 public:
  static EmbeddedNodes& Instance() {
    static constinit port::PerProcess<EmbeddedNodes> instance;
    return instance.Here();
  }

  // Starts the one that `options` mean if it is not there.
  Status Join(const EmbeddedNodeOptions& options, std::shared_ptr<EmbeddedNode>* node)
      LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    if (options.directory.empty()) {
      if (in_memory_ == nullptr) DLSM_RETURN_IF_ERROR(EmbeddedNode::Start(options, &in_memory_));
      *node = in_memory_;
      return Status::OK();
    }
    std::error_code error;
    const std::string path = std::filesystem::weakly_canonical(options.directory, error).string();
    *node = in_directories_[path].lock();
    if (*node != nullptr) return Status::OK();
    DLSM_RETURN_IF_ERROR(EmbeddedNode::Start(options, node));
    in_directories_[path] = *node;
    return Status::OK();
  }

 private:
  port::Mutex mutex_;
  std::shared_ptr<EmbeddedNode> in_memory_ GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<EmbeddedNode>> in_directories_ GUARDED_BY(mutex_);
};

}  // namespace

Status ConnectEmbeddedNode(const EmbeddedNodeOptions& node_options,
                           const FabricOptions& fabric_options,
                           std::unique_ptr<NodeConnection>* connection) {
  DLSM_RETURN_IF_ERROR(InjectConnectFault(fabric_options.faults));
  std::shared_ptr<EmbeddedNode> embedded;
  DLSM_RETURN_IF_ERROR(EmbeddedNodes::Instance().Join(node_options, &embedded));
  MemoryNode* const node = &embedded->node();
  RpcPeer client;
  client.connection = embedded->NewConnection();
  client.name = "this process";
  FabricPeer peer;
  peer.node = node->id();
  peer.contents = node->contents();
  peer.boot = node->boot();
  peer.persistence = node->persistence();
  peer.has_files = node->has_files();
  peer.regions.push_back(node->region().info());
  FabricOptions local = fabric_options;
  local.kind = FabricKind::kLocal;
  // Nothing is waited for: the other end is this process.
  std::unique_ptr<FabricConnection> fabric;
  DLSM_RETURN_IF_ERROR(ConnectFabric(local, peer, Deadline::In(std::chrono::seconds(1)), &fabric));
  *connection = std::make_unique<NodeConnection>(
      InjectCallFaults(fabric_options.faults, NewLoopbackRpcClient(node, client)), std::move(peer),
      std::move(fabric), std::move(embedded));
  return Status::OK();
}

}  // namespace dlsm
