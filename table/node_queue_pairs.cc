#include "table/node_queue_pairs.h"

#include <string>

#include "util/status_macros.h"

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
  DLSM_RETURN_IF_ERROR(Check(node));
  return queue_pairs->ForThisThread(node, queue_pair);
}

Status NodeQueuePairs::ForLimitedRead(NodeId node, const TableReadOptions& options,
                                      QueuePair** queue_pair) {
  ThreadQueuePairs* const queue_pairs = Of(node);
  if (queue_pairs == nullptr) return Unknown(node);
  DLSM_RETURN_IF_ERROR(Check(node));
  return queue_pairs->ForLimitedRead(node, options, queue_pair);
}

void NodeQueuePairs::End(NodeId node, const Status& why) {
  const port::MutexLock lock(mutex_);
  for (Way& way : ways_) {
    if (way.node != node || !way.ended.ok()) continue;  // The first one stays.
    way.ended = why;
    way.ended.PermitUncheckedError();  // Who wants a queue pair is told, if anybody does.
    lost_nodes_.fetch_add(1, std::memory_order_release);
  }
}

Status NodeQueuePairs::EndOf(NodeId node) const {
  const port::MutexLock lock(mutex_);
  for (const Way& way : ways_) {
    if (way.node == node) return way.ended;
  }
  return Status::OK();
}

Status NodeQueuePairs::NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) {
  ThreadQueuePairs* const queue_pairs = Of(node);
  if (queue_pairs == nullptr) [[unlikely]]
    return Unknown(node);
  DLSM_RETURN_IF_ERROR(queue_pairs->NewBuffer(node, bytes, buffer));
  if (buffer_counter_ == nullptr) return Status::OK();
  buffer_counter_->fetch_add(buffer->bytes(), std::memory_order_relaxed);
  // Goes when the last user of the buffer does, and keeps the buffer until then.
  const std::shared_ptr<char[]> counted(
      buffer->data(), [held = *buffer, counter = buffer_counter_](const char*) {
        counter->fetch_sub(held.bytes(), std::memory_order_relaxed);
      });
  *buffer = RegisteredBuffer(counted, buffer->bytes(), buffer->span().local_key);
  return Status::OK();
}

const char* NodeQueuePairs::Direct(const RemoteSpan& span) const {
  ThreadQueuePairs* const queue_pairs = Of(span.node);
  return queue_pairs == nullptr ? nullptr : queue_pairs->Direct(span);
}

Status NodeQueuePairs::ScratchForThisThread(NodeId node, size_t bytes, LocalSpan* scratch) {
  ThreadQueuePairs* const queue_pairs = Of(node);
  if (queue_pairs == nullptr) [[unlikely]]
    return Unknown(node);
  return queue_pairs->ScratchForThisThread(bytes, scratch);
}

}  // namespace dlsm
