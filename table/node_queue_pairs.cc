#include "table/node_queue_pairs.h"

#include <string>

namespace dlsm {

Status NodeQueuePairs::Unknown(NodeId node) {
  return Status::InvalidArgument(
      "memory node " + std::to_string(static_cast<uint32_t>(node)) + " holds none of these tables",
      "name all of the database's memory nodes");
}

Status NodeQueuePairs::ForThisThread(NodeId node, QueuePair** queue_pair) {
  ThreadQueuePairs* const queue_pairs = Of(node);
  if (queue_pairs == nullptr) [[unlikely]]
    return Unknown(node);
  return queue_pairs->ForThisThread(node, queue_pair);
}

Status NodeQueuePairs::NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) {
  ThreadQueuePairs* const queue_pairs = Of(node);
  if (queue_pairs == nullptr) [[unlikely]]
    return Unknown(node);
  return queue_pairs->NewBuffer(node, bytes, buffer);
}

Status NodeQueuePairs::ScratchForThisThread(NodeId node, size_t bytes, LocalSpan* scratch) {
  ThreadQueuePairs* const queue_pairs = Of(node);
  if (queue_pairs == nullptr) [[unlikely]]
    return Unknown(node);
  return queue_pairs->ScratchForThisThread(bytes, scratch);
}

}  // namespace dlsm
