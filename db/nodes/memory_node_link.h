// A handle's way to one memory node, which all of its shards there share.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/nodes/merge_load_monitor.h"
#include "table/merge_scheduler.h"
#include "table/thread_queue_pairs.h"
#include "util/rpc/node_connection.h"

namespace dlsm {

class TransferGuard;

// How often a memory node hears of its sessions at the latest.
inline constexpr std::chrono::milliseconds kHeartbeatIntervalMax{1000};
inline constexpr std::chrono::milliseconds kSleepingHeartbeatIntervalMax{2500};
// And of those that have this lease, or longer ones: of a handle that is in use, or else sleeps.
std::chrono::milliseconds HeartbeatIntervalFor(std::chrono::milliseconds lease);
std::chrono::milliseconds SleepingHeartbeatIntervalFor(std::chrono::milliseconds lease);

// The memory nodes that the options name, as "host:port", in their order. One that is empty: the
// memory node inside this process, if they name none.
Status MemoryNodesOf(const Options& options, std::vector<std::string>* nodes);

// Connects to one of these. `guard` may be null, see FabricOptions.
Status ConnectToMemoryNode(const Options& options, const std::string& node,
                           std::unique_ptr<NodeConnection>* connection,
                           std::shared_ptr<const TransferGuard> guard = nullptr);

// Thread-safe.
class MemoryNodeLink {
 public:
  // `local_merges` outlives the link.
  static Status Open(const Options& options, const std::string& node,
                     const MergeScheduler* local_merges, std::unique_ptr<MemoryNodeLink>* link,
                     std::shared_ptr<const TransferGuard> guard = nullptr);

  // Of MemoryNodesOf().
  const std::string& node() const { return node_; }
  // For people.
  std::string name() const { return node_.empty() ? "embedded" : node_; }
  RpcClient& rpc() { return connection_->rpc(); }
  FabricConnection& fabric() { return connection_->fabric(); }
  const FabricPeer& peer() const { return connection_->peer(); }
  ThreadQueuePairs& queue_pairs() { return queue_pairs_; }
  // What is known of its load, by all shards together.
  MergeLoadMonitor& merge_load() { return merge_load_; }

 private:
  MemoryNodeLink(const Options& options, const std::string& node,
                 std::unique_ptr<NodeConnection> connection, const MergeScheduler* local_merges);

  const std::string node_;
  const std::unique_ptr<NodeConnection> connection_;
  ThreadQueuePairs queue_pairs_;
  MergeLoadMonitor merge_load_;
};

}  // namespace dlsm
