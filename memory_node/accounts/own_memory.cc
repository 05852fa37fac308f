#include "memory_node/accounts/own_memory.h"

#include <atomic>
#include <cstring>
#include <memory>

#include "util/status_macros.h"

namespace dlsm {
namespace {

Status WrongNode() {
  return Status::InvalidArgument("this way leads to the memory node's own memory only");
}

}  // namespace

Status OwnMemory::ForThisThread(NodeId node, QueuePair** queue_pair) {
  if (node != node_) return WrongNode();
  *queue_pair = &queue_pair_;
  return Status::OK();
}

Status OwnMemory::NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) {
  if (node != node_) return WrongNode();
  *buffer = RegisteredBuffer(std::make_shared<char[]>(bytes), bytes, 0);
  return Status::OK();
}

char* OwnMemory::OwnQueuePair::Direct(const RemoteSpan& span) {
  const bool inside = span.node == node_ && span.region == region_ && span.offset <= bytes_ &&
                      span.bytes <= bytes_ - span.offset;
  return inside ? data_ + span.offset : nullptr;
}

Status OwnMemory::OwnQueuePair::Locate(const RemoteSpan& span, char** bytes) {
  *bytes = Direct(span);
  if (*bytes == nullptr)
    return Status::InvalidArgument("a span is outside the memory node's region");
  return Status::OK();
}

Status OwnMemory::OwnQueuePair::LocateWord(const RemoteSpan& word, uint64_t** value) {
  char* bytes = nullptr;
  DLSM_RETURN_IF_ERROR(Locate(word, &bytes));
  if (word.bytes != sizeof(uint64_t) || word.offset % sizeof(uint64_t) != 0) {
    return Status::InvalidArgument("an atomic operation needs 8 aligned bytes");
  }
  *value = reinterpret_cast<uint64_t*>(bytes);
  return Status::OK();
}

Status OwnMemory::OwnQueuePair::PostRead(const RemoteSpan& from, const LocalSpan& to,
                                         Purpose /*purpose*/, Ticket* ticket) {
  char* bytes = nullptr;
  DLSM_RETURN_IF_ERROR(Locate(from, &bytes));
  if (to.bytes < from.bytes) return Status::InvalidArgument("a read exceeds its buffer");
  if (from.bytes > 0) std::memcpy(to.data, bytes, from.bytes);
  *ticket = Ticket{};
  return Status::OK();
}

Status OwnMemory::OwnQueuePair::PostWrite(const LocalSpan& from, const RemoteSpan& to,
                                          Purpose /*purpose*/, Ticket* ticket) {
  char* bytes = nullptr;
  DLSM_RETURN_IF_ERROR(Locate(to, &bytes));
  if (from.bytes > to.bytes) return Status::InvalidArgument("a write exceeds its span");
  if (from.bytes > 0) std::memcpy(bytes, from.data, from.bytes);
  *ticket = Ticket{};
  return Status::OK();
}

Status OwnMemory::OwnQueuePair::PostCompareAndSwap(const RemoteSpan& word, uint64_t expected,
                                                   uint64_t desired, uint64_t* prior,
                                                   Purpose /*purpose*/, Ticket* ticket) {
  uint64_t* value = nullptr;
  DLSM_RETURN_IF_ERROR(LocateWord(word, &value));
  *prior = expected;
  std::atomic_ref<uint64_t>(*value).compare_exchange_strong(*prior, desired);
  *ticket = Ticket{};
  return Status::OK();
}

Status OwnMemory::OwnQueuePair::PostFetchAdd(const RemoteSpan& word, uint64_t addend,
                                             uint64_t* prior, Purpose /*purpose*/, Ticket* ticket) {
  uint64_t* value = nullptr;
  DLSM_RETURN_IF_ERROR(LocateWord(word, &value));
  *prior = std::atomic_ref<uint64_t>(*value).fetch_add(addend);
  *ticket = Ticket{};
  return Status::OK();
}

}  // namespace dlsm
