#include "table/thread_queue_pairs.h"

#include <algorithm>
#include <bit>

#include "util/status_macros.h"

namespace dlsm {

Status ThreadQueuePairs::ForThisThread(NodeId, QueuePair** queue_pair) {
  Slot& slot = slots_.Local();
  if (slot.queue_pair != nullptr && slot.queue_pair->held().size() > 0) [[unlikely]] {
    WaitForAbandoned(slot.queue_pair.get(), Deadline::In(timeout_));
  }
  if (slot.queue_pair == nullptr || slot.queue_pair->closed()) [[unlikely]] {
    DLSM_RETURN_IF_ERROR(Make(&slot, Deadline::In(timeout_)));
  }
  *queue_pair = slot.queue_pair.get();
  return Status::OK();
}

// A read in place waits for no transfer, and making a queue pair to memory that is mapped
// takes no round trip.
Status ThreadQueuePairs::ForLimitedRead(NodeId, const TableReadOptions& options,
                                        QueuePair** queue_pair) {
  Slot& slot = slots_.Local();
  if (options.local) {
    const FabricKind kind = fabric_->kind();
    if (kind != FabricKind::kLocal && kind != FabricKind::kShm) return options.CheckTransfer();
  } else {
    DLSM_RETURN_IF_ERROR(options.CheckDeadline());
    if (slot.queue_pair != nullptr && slot.queue_pair->held().size() > 0) {
      WaitForAbandoned(slot.queue_pair.get(), options.WaitEnds());
    }
  }
  if (slot.queue_pair == nullptr || slot.queue_pair->closed()) {
    DLSM_RETURN_IF_ERROR(options.CheckDeadline());
    const Deadline deadline = Deadline::At(std::min<Deadline::Clock::time_point>(
        Deadline::In(timeout_).time_point(), options.deadline));
    DLSM_RETURN_IF_ERROR(Make(&slot, deadline));
  }
  *queue_pair = slot.queue_pair.get();
  return Status::OK();
}

const char* ThreadQueuePairs::Direct(const RemoteSpan& span) {
  QueuePair* const queue_pair = slots_.Local().queue_pair.get();
  return queue_pair == nullptr || queue_pair->closed() ? nullptr : queue_pair->Direct(span);
}

// Requests complete in order, so that the next wait would include these transfers anyway. One that
// fails closes the queue pair.
void ThreadQueuePairs::WaitForAbandoned(QueuePair* queue_pair, Deadline deadline) const {
  while (true) {
    const Ticket abandoned = queue_pair->held().Abandoned();
    if (abandoned == Ticket{} || !queue_pair->Wait(abandoned, deadline).ok()) return;
    queue_pair->held().Complete(abandoned);
  }
}

// A try that failed stands for the next ones as long as it has taken. Otherwise a call that reads
// many tables would wait for its time-out at each of them while the network is down.
Status ThreadQueuePairs::Make(Slot* slot, Deadline deadline) {
  constexpr std::chrono::nanoseconds kStandsMax = std::chrono::seconds(1);
  slot->queue_pair.reset();
  const auto start = Deadline::Clock::now();
  if (start < slot->try_again_at) return slot->failure;
  const Status made = fabric_->NewQueuePair(deadline, &slot->queue_pair);
  if (made.ok()) return made;
  const auto end = Deadline::Clock::now();
  slot->try_again_at = end + std::min<std::chrono::nanoseconds>(end - start, kStandsMax);
  const Status lost = rpc_->lost();
  slot->failure = lost.ok() ? made : lost;
  return slot->failure;
}

Status ThreadQueuePairs::NewBuffer(NodeId, size_t bytes, RegisteredBuffer* buffer) {
  return fabric_->NewBuffer(bytes, buffer);
}

Status ThreadQueuePairs::ScratchForThisThread(size_t bytes, LocalSpan* scratch) {
  constexpr size_t kKeptBytesMax = size_t{1} << 20;  // More is given back at the next smaller call.
  constexpr size_t kFirstBytes = size_t{16} << 10;
  Slot& slot = slots_.Local();
  const bool too_large = slot.scratch.bytes() > kKeptBytesMax && bytes <= kKeptBytesMax;
  if (slot.scratch.bytes() < bytes || too_large) {
    slot.scratch = RegisteredBuffer();
    DLSM_RETURN_IF_ERROR(
        fabric_->NewBuffer(std::bit_ceil(std::max(bytes, kFirstBytes)), &slot.scratch));
  }
  *scratch = slot.scratch.span().Sub(0, bytes);
  return Status::OK();
}

}  // namespace dlsm
