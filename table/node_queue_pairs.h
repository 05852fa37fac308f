// The queue pairs to each of the memory nodes that hold a tree's tables.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "table/table_reader.h"
#include "table/thread_queue_pairs.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Thread-safe once all nodes have been added.
class NodeQueuePairs final : public QueuePairs {
 public:
  // `queue_pairs`, which go to `node`, outlive this. Each node once.
  void Add(NodeId node, ThreadQueuePairs* queue_pairs) { ways_.push_back({node, queue_pairs}); }

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
  Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) override;
  // As ThreadQueuePairs does it.
  const char* Direct(const RemoteSpan& span) const;
  // As ThreadQueuePairs does it, for transfers from and to that node.
  Status ScratchForThisThread(NodeId node, size_t bytes, LocalSpan* scratch);

 private:
  struct Way {
    NodeId node{};
    ThreadQueuePairs* queue_pairs = nullptr;
  };

  std::vector<Way> ways_;                                  // A handful.
  std::shared_ptr<std::atomic<uint64_t>> buffer_counter_;  // Null: they are not counted.
};

}  // namespace dlsm
