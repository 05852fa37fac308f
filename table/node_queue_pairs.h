// The queue pairs to each of the memory nodes that hold a tree's tables.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "table/table_reader.h"
#include "table/thread_queue_pairs.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Thread-safe once all nodes have been added.
class NodeQueuePairs final : public QueuePairs {
 public:
  // `queue_pairs`, which go to `node`, outlive this. Each node once.
  void Add(NodeId node, ThreadQueuePairs* queue_pairs) {
    ways_.push_back({node, queue_pairs, Status()});
  }

  // The tree's session at that node has ended, or is about to, as `why`, an error, says: what it
  // had there may be others' by now, and where that is mapped nothing takes it away. No queue pair
  // to the node is handed out any more; what is under way ends, in place as well (LostNodes()).
  void End(NodeId node, const Status& why) LOCKS_EXCLUDED(mutex_);
  // OK as long as it has not. For who takes queue pairs from Of().
  Status Check(NodeId node) const LOCKS_EXCLUDED(mutex_) {
    // Pairs with the addition in End().
    if (lost_nodes_.load(std::memory_order_acquire) == 0) [[likely]]
      return Status::OK();
    return EndOf(node);
  }

  // The bytes of buffers that NewBuffer() hands out are counted there as long as they live.
  void CountBuffers(std::shared_ptr<std::atomic<uint64_t>> counter) {
    buffer_counter_ = std::move(counter);
  }

  // Null if the node was not added: metas come from other machines.
  ThreadQueuePairs* Of(NodeId node) const {
    for (const Way& way : ways_) {
      if (way.node == node) return way.queue_pairs;
    }
    return nullptr;
  }
  // What to say then.
  static Status Unknown(NodeId node);

  Status ForThisThread(NodeId node, QueuePair** queue_pair) override;
  Status ForLimitedRead(NodeId node, const TableReadOptions& options,
                        QueuePair** queue_pair) override;
  Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) override;
  const std::atomic<uint32_t>& LostNodes() const override { return lost_nodes_; }
  // As ThreadQueuePairs does it.
  const char* Direct(const RemoteSpan& span) const;
  // As ThreadQueuePairs does it, for transfers from and to that node.
  Status ScratchForThisThread(NodeId node, size_t bytes, LocalSpan* scratch);

 private:
  struct Way {
    NodeId node{};
    ThreadQueuePairs* queue_pairs = nullptr;
    Status ended;  // Guarded by mutex_. Not OK: that is why.
  };

  Status EndOf(NodeId node) const LOCKS_EXCLUDED(mutex_);

  std::vector<Way> ways_;                                  // A handful.
  std::shared_ptr<std::atomic<uint64_t>> buffer_counter_;  // Null: they are not counted.
  std::atomic<uint32_t> lost_nodes_{0};
  mutable port::Mutex mutex_;  // Of why they have; held for moments only.
};

}  // namespace dlsm
