// A compute node's way to a memory node over RDMA: its device, its registered buffers, and the
// set-up of queue pairs. The data path is in verbs_datapath.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/fabric.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/verbs/verbs_buffers.h"
#include "util/fabric/verbs/verbs_datapath.h"
#include "util/fabric/verbs/verbs_options.h"
#include "util/fabric/verbs/verbs_shared.h"

namespace dlsm {

class VerbsConnection : public FabricConnection {
 public:
  // Opens the device and resolves the host; talks to the memory node at the first queue pair.
  // `numa_node`: see FabricOptions.
  static Status Connect(const VerbsOptions& options, int numa_node, const FabricPeer& peer,
                        std::unique_ptr<FabricConnection>* connection);
  // The same through a device that is open.
  static Status ConnectThrough(std::shared_ptr<const VerbsDevice> device, int numa_node,
                               const FabricPeer& peer,
                               std::unique_ptr<FabricConnection>* connection);

  // Whether this machine has what Connect() needs: a device that can be used, and leave to register
  // memory with it.
  static Status Check(const VerbsOptions& options);
  // And also for atomics.
  static Status CheckAtomics(const VerbsOptions& options);

  FabricKind kind() const override { return FabricKind::kVerbs; }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override;
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return buffers_->NewBuffer(bytes, buffer);
  }
  bool MayStillLand() const override { return books_.farewells.Pending(); }
  WireTotals Totals() const override { return books_.costs.Totals(); }
  int numa_node() const override { return numa_node_; }
  std::string Describe() const override;
  VerbsCounts Counts() const { return books_.counters.Sum(); }
  const VerbsDevice& device() const { return domain_->device(); }
  uint64_t registrations() const { return buffers_->registrations(); }

 private:
  VerbsConnection(const FabricPeer& peer, PeerDialer dialer,
                  std::shared_ptr<const VerbsDomain> domain, int numa_node);
  Status NewOwn(Deadline deadline, VerbsSlots::Slot slot,
                std::unique_ptr<VerbsQueuePair>* queue_pair);
  Status NewShare(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) LOCKS_EXCLUDED(mutex_);

  const VerbsOptions options_;
  const PeerDialer dialer_;
  const std::string token_;
  const std::shared_ptr<const VerbsPeer> peer_;
  const std::vector<RegionInfo> regions_;
  const std::shared_ptr<const VerbsDomain> domain_;
  const int numa_node_;
  const std::shared_ptr<VerbsBuffers> buffers_;
  VerbsBooks books_;
  std::atomic<uint64_t> shares_{0};  // Queue pairs that share, ever handed out.

  port::Mutex mutex_;  // Protects what follows; held while the shared queue pair is set up.
  std::shared_ptr<VerbsSharedCore> shared_ GUARDED_BY(mutex_);
};

// The client's half of the conversation in verbs_frame.h, or, where the device is connected by the
// connection manager, in verbs_cm_frame.h: `socket` has sent nothing yet. Connects
// `endpoint` and tells what memory it reaches.
Status ArrangeQueuePair(const std::string& peer, const std::string& token, int socket,
                        Deadline deadline, VerbsEndpoint* endpoint,
                        std::vector<VerbsRemoteMemory>* memory);

}  // namespace dlsm
