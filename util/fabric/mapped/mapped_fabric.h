// The data path of the fabrics whose regions this process can address (local and shm): a transfer
// is a copy, done when it is posted, so nothing is ever in flight; unless a thread copies aside.
#pragma once

#include <memory>

#include "util/fabric/buffer_pool.h"
#include "util/fabric/fabric.h"
#include "util/fabric/mapped/copy_thread.h"
#include "util/fabric/queue_pair_ledger.h"
#include "util/fabric/region_table.h"

namespace dlsm {

class MappedConnection : public FabricConnection {
 public:
  // `owner` keeps the regions of the table mapped; may be null if something else does.
  // `numa_node`: of its buffers.
  MappedConnection(FabricKind kind, NodeId node, RegionTable regions,
                   std::shared_ptr<const void> owner, int numa_node = kNoNumaNode);

  FabricKind kind() const override { return kind_; }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override;
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return buffers_.NewBuffer(bytes, buffer);
  }
  void CopyAside(uint64_t wakes_for_bytes) override;
  WireTotals Totals() const override { return costs_.Totals(); }
  int numa_node() const override { return numa_node_; }

 private:
  const FabricKind kind_;
  const NodeId node_;
  const int numa_node_;
  const std::shared_ptr<const void> owner_;
  const RegionTable regions_;
  BufferPool buffers_;
  WireCostRegistry costs_;
  std::unique_ptr<CopyThread> copies_;  // Null: who posts copies. After what it reads and writes.
};

}  // namespace dlsm
