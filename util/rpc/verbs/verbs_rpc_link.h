// One end of the queue pair that carries calls, as client and memory node use it alike: posts,
// completions, events, and the registered memory that goes with them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/mapped/memory_mapping.h"
#include "util/fabric/verbs/verbs_endpoint.h"
#include "util/fabric/verbs/verbs_memory.h"
#include "util/rpc/channel/rpc_counts.h"

namespace dlsm {

// Memory and its registration.
struct RpcMemory {
  // In the order in which they need each other.
  std::shared_ptr<const VerbsDomain> domain;
  MemoryMapping memory;
  VerbsRegistration registration{nullptr, nullptr};

  // Zeroed. `access` is a set of ibv_access_flags.
  static Status Make(std::shared_ptr<const VerbsDomain> domain, size_t bytes, int access,
                     std::shared_ptr<RpcMemory>* made);

  char* data() const { return memory.data(); }
  size_t bytes() const { return memory.bytes(); }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory.data()); }
};

// Buffers for what is too large for an end's own memory; a few are kept for the next. Not
// thread-safe: its owner's mutex is held, also when a buffer's last reference goes.
class RpcMemoryPool {
 public:
  explicit RpcMemoryPool(int access) : access_(access) {}
  Status Take(const std::shared_ptr<const VerbsDomain>& domain, size_t bytes,
              std::shared_ptr<RpcMemory>* taken);

 private:
  int access_;
  std::vector<std::shared_ptr<RpcMemory>> pool_;
};

// A piece of the peer's memory.
struct RpcRemote {
  uint64_t address = 0;
  uint32_t key = 0;
};

// Not thread-safe, but for the counts: its owner's mutex is held.
class VerbsRpcLink {
 public:
  // NotSupported, with the remedy, if the device cannot carry calls.
  static Status CheckDevice(const VerbsDevice& device);
  // `receives`: buffers that can be posted at once.
  static Status Create(std::shared_ptr<const VerbsDevice> device, uint32_t receives,
                       std::unique_ptr<VerbsRpcLink>* link);
  // Nothing of this end is read or written any more once it is destroyed.
  ~VerbsRpcLink() = default;

  VerbsEndpoint& endpoint() { return *endpoint_; }
  const std::shared_ptr<const VerbsDomain>& domain() const { return domain_; }
  // Of one work request. The largest message of all takes half of the send queue at most, whatever
  // the options say, unless the device's own bound is lower: so there is room for it again and
  // again.
  uint64_t message_bytes_max() const { return message_bytes_max_; }
  // How many work requests so many bytes take.
  size_t PartsOf(uint64_t bytes) const {
    return static_cast<size_t>((bytes + message_bytes_max_ - 1) / message_bytes_max_);
  }

  // What is to be done with a work request when the device is done with its memory.
  using Done = std::function<void()>;

  // Whether so many more work requests can be posted now.
  bool HasRoom(size_t requests) const { return flights_.size() + requests <= endpoint_->depth(); }
  // Hands the chain to the device with one doorbell. `done` is that of the last one; none: its
  // memory is copied by the post (inline), or its owner learns otherwise when it is free.
  Status Post(ibv_send_wr* chain, size_t count, Done done);
  // `bytes` may be 0. `id` comes back with what has arrived.
  Status PostReceive(uint32_t id, char* data, size_t bytes, uint32_t key);

  // What has arrived in a posted buffer, which is the owner's again.
  struct Received {
    uint32_t id = 0;
    size_t bytes = 0;  // 0 of an RDMA write.
    bool immediate = false;
    uint32_t number = 0;  // The immediate.
  };
  // Takes completions, and appends what has arrived. *progress: whether there were any.
  Status Poll(std::vector<Received>* received, bool* progress);

  // The next completion (`solicited`: of what its sender has marked so) makes events() readable.
  Status Arm(bool solicited);
  // Once events() is readable.
  void TakeEvent();
  int events() const { return endpoint_->events()->fd; }

  // Not OK once the device has reported that the queue pair, or all of it, has failed. `call` is
  // called then, from another thread; it wakes who sleeps.
  Status Health() const;
  void OnBreak(std::function<void()> call) { endpoint_->health().OnBreak(std::move(call)); }

  RpcCounts counts() const;
  void CountSleep() { sleeps_.fetch_add(1, std::memory_order_relaxed); }

 private:
  VerbsRpcLink(std::shared_ptr<const VerbsDomain> domain, std::unique_ptr<VerbsEndpoint> endpoint);
  Status Failed(const ibv_wc& completion) const;

  const std::shared_ptr<const VerbsDomain> domain_;
  std::deque<Done> flights_;  // The front is number retired_ + 1. They hold memory in use.
  const std::unique_ptr<VerbsEndpoint> endpoint_;
  const uint64_t message_bytes_max_;
  const uint32_t signal_every_;
  uint64_t retired_ = 0;
  uint32_t unsignaled_ = 0;

  // Relaxed: counts order nothing.
  std::atomic<uint64_t> work_requests_{0}, doorbells_{0}, completions_{0}, sleeps_{0};
};

}  // namespace dlsm
