// A memory node's ways to others, whose tables it merges together with its own: it reads them
// directly, one-sided, as a compute node would. (Nova-LSM section 4.3 has storage nodes fetch the
// fragments that a compaction needs from each other.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/own_memory.h"
#include "port/mutex.h"
#include "table/merge_messages.h"
#include "table/table_reader.h"
#include "table/thread_queue_pairs.h"
#include "util/fabric/verbs/verbs_options.h"
#include "util/rpc/node_connection.h"

namespace dlsm {

// Thread-safe.
class PeerNodes {
 public:
  struct Config {
    NodeId node{};                               // Of this memory node.
    Credentials credentials;                     // Of this cluster's memory nodes.
    VerbsOptions verbs;                          // For peers that serve RDMA.
    std::shared_ptr<NodeConnector> connector{};  // See NodeConnector; null: the network.
    std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  };

  // A connection to one other memory node.
  class Peer {
   public:
    Peer(std::unique_ptr<NodeConnection> connection, std::chrono::nanoseconds timeout)
        : connection_(std::move(connection)),
          queue_pairs_(&connection_->fabric(), &connection_->rpc(), timeout) {}

    NodeConnection& connection() { return *connection_; }
    ThreadQueuePairs& queue_pairs() { return queue_pairs_; }

   private:
    const std::unique_ptr<NodeConnection> connection_;
    ThreadQueuePairs queue_pairs_;
  };

  // The ways that one merge needs: to this memory node's own memory, and to its peers'.
  class Ways final : public QueuePairs {
   public:
    explicit Ways(OwnMemory* own) : own_(own) {}
    Status ForThisThread(NodeId node, QueuePair** queue_pair) override;
    Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) override;

   private:
    friend class PeerNodes;
    Status Find(NodeId node, Peer** peer) const;

    OwnMemory* const own_;
    std::map<NodeId, std::shared_ptr<Peer>> peers_;
  };

  explicit PeerNodes(Config config) : config_(std::move(config)) {}

  // Finds the ways to `peers`; connects to those that are not connected, and anew to those that
  // were lost, that this thread cannot read from, or that are in another boot than `peers` name.
  // NotSupported if one cannot be reached from
  // here, or is not the memory node, in the boot, that is meant: the caller may reach it better.
  Status Connect(const std::vector<MergePeer>& peers, Ways* ways) LOCKS_EXCLUDED(mutex_);

  // A merge has failed over these ways: the next one connects anew.
  void Forget(const Ways& ways) LOCKS_EXCLUDED(mutex_);

  // Read from others, so far.
  uint64_t bytes_read() const LOCKS_EXCLUDED(mutex_);

 private:
  Status Reach(const MergePeer& peer, std::shared_ptr<Peer>* reached) LOCKS_EXCLUDED(mutex_);
  Status ConnectTo(const MergePeer& peer, std::shared_ptr<Peer>* made) const;
  // Removes connections that no merge uses until no more than `kept` are left.
  std::vector<std::shared_ptr<Peer>> TakeUnusedLocked(size_t kept) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;

  mutable port::Mutex mutex_;  // Never held while connecting.
  // By "host:port".
  std::map<std::string, std::shared_ptr<Peer>> peers_ GUARDED_BY(mutex_);
  uint64_t bytes_read_dropped_ GUARDED_BY(mutex_) = 0;  // Over connections that are gone.
};

}  // namespace dlsm
