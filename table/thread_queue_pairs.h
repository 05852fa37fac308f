// Thread-local queue pairs (dLSM section "RDMA manager"): each thread has a queue pair of its own
// to the memory node, made when it first needs one, so that the data path takes no lock.
#pragma once

#include <memory>

#include "table/table_reader.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/rpc/channel/rpc.h"
#include "util/thread_number.h"

namespace dlsm {

// Thread-safe. When a thread ends, its queue pair waits for the next thread with its number. No
// thread may use one while this is destroyed.
//
// A queue pair that is handed out has no failed transfer behind it that nobody waited for (but for
// some behind several that somebody will wait for): what was read ahead in vain, and failed, breaks
// its queue pair, but not the next operation.
class ThreadQueuePairs final : public QueuePairs {
 public:
  // `fabric` and `rpc`, which go to the same memory node, outlive this.
  ThreadQueuePairs(FabricConnection* fabric, RpcClient* rpc, std::chrono::nanoseconds timeout)
      : fabric_(fabric), rpc_(rpc), timeout_(timeout) {}

  Status ForThisThread(NodeId node, QueuePair** queue_pair) override;
  Status ForLimitedRead(NodeId node, const TableReadOptions& options,
                        QueuePair** queue_pair) override;
  Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) override;

  // Where these bytes are in this process; null if they are not, or if the calling thread has no
  // queue pair yet. Makes none, and waits for nothing.
  const char* Direct(const RemoteSpan& span);

  // A registered buffer of the calling thread with at least `bytes`; its bytes stay until the
  // thread's next call.
  Status ScratchForThisThread(size_t bytes, LocalSpan* scratch);

 private:
  struct Slot {
    std::unique_ptr<QueuePair> queue_pair;
    RegisteredBuffer scratch;
    // The last try to make a queue pair, if it failed, and until when it stands for the next ones.
    Status failure;
    Deadline::Clock::time_point try_again_at;
  };

  Status Make(Slot* slot, Deadline deadline);
  void WaitForAbandoned(QueuePair* queue_pair, Deadline deadline) const;

  FabricConnection* const fabric_;
  RpcClient* const rpc_;
  const std::chrono::nanoseconds timeout_;
  PerThread<Slot> slots_;
};

}  // namespace dlsm
