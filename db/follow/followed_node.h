// A follower's way to one memory node: a connection of its own, and a reader there, whose lease
// decides whether what was transferred may be used.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/follow/publication.h"
#include "db/nodes/memory_node_link.h"
#include "port/boot_clock.h"
#include "port/mutex.h"
#include "util/fabric/decorators/guarded_fabric.h"
#include "util/rpc/messages/messages.h"
#include "util/thread_pool.h"

namespace dlsm {

// The memory node counts a lease from when it has got a heartbeat, this from before that was sent,
// and here time for which this machine was suspended counts, too: so it ends here first.
// Thread-safe.
class ReaderLease final : public TransferGuard {
 public:
  using Clock = port::BootClock;

  explicit ReaderLease(std::string node) : node_(std::move(node)) {}

  void Renewed(Clock::time_point sent, std::chrono::nanoseconds lease) LOCKS_EXCLUDED(mutex_);
  // An attempt to renew it has failed; the first one's reason is told.
  void NotRenewed(const Status& why) LOCKS_EXCLUDED(mutex_);
  // The memory node has said that it has ended, earlier than it is reckoned here: clocks leap. If
  // it was not renewed before, that tells more of why.
  void Ended(const Status& why) LOCKS_EXCLUDED(mutex_);

  // TimedOut once the lease has ended.
  Status Check() const override;
  // Negative once it has ended.
  std::chrono::nanoseconds left() const;

 private:
  const std::string node_;
  // Of the clock. Relaxed: it orders nothing, and the margin is much longer than any reordering of
  // a transfer and the look at the clock after it.
  std::atomic<int64_t> good_until_{INT64_MIN};

  mutable port::Mutex mutex_;
  Status why_ GUARDED_BY(mutex_);
};

// Opened and covered by one thread; otherwise thread-safe.
class FollowedNode {
 public:
  // `databases`: names there. `idle` is a scheduler without merges, and outlives this.
  static Status Open(const Options& options, const std::string& node,
                     std::vector<std::string> databases, const MergeScheduler* idle,
                     std::unique_ptr<FollowedNode>* followed);
  // The same for what a publication has there. IOError if the memory node has other contents than
  // those that the publication names: what was published there is lost, whatever has its name now.
  static Status Open(const Options& options, const Publication::Place& place,
                     const MergeScheduler* idle, std::unique_ptr<FollowedNode>* followed);
  ~FollowedNode() { Stop(/*close=*/false); }

  // Reads these databases, too, from now on; learns anew from where on publications are whole.
  // While none is in use. An error: this is of no more use than to be stopped.
  Status Cover(const std::vector<std::string>& databases);
  bool Covers(const std::vector<std::string>& databases) const;

  // Renews the lease from now on; `oldest` is asked for the oldest publication in use. An error: it
  // is not renewed.
  Status Start(std::function<uint64_t()> oldest);
  // Renews it no more. `close`: nothing is used any more, and the memory node is told so.
  void Stop(bool close);

  bool Has(ContentsId contents) const { return link_->peer().contents == contents; }

  MemoryNodeLink& link() { return *link_; }
  const ReaderLease& lease() const { return *lease_; }
  const RemoteSpan& header() const { return opened_.header; }
  // Publications before this one may name memory that has been freed.
  uint64_t whole_from() const { return opened_.whole_from; }

 private:
  // *followed has no reader yet.
  static Status Connect(const Options& options, const std::string& node, const MergeScheduler* idle,
                        std::unique_ptr<FollowedNode>* followed);
  FollowedNode(const Options& options, std::shared_ptr<ReaderLease> lease,
               std::unique_ptr<MemoryNodeLink> link)
      : timeout_(options.operation_timeout_ms),
        faults_(options.fault_injector),
        lease_(std::move(lease)),
        link_(std::move(link)) {}

  Status OpenReader(std::vector<std::string> databases);
  Status CloseReader(ReaderId reader);
  std::chrono::nanoseconds lease_time() const {
    return std::chrono::milliseconds(opened_.lease_ms);
  }
  port::Clock::time_point Renew();
  // *hurry: others wait for memory that this may let go of.
  Status Heartbeat(uint64_t oldest, bool* hurry);

  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<FaultInjector> faults_;  // Null: none.
  const std::shared_ptr<ReaderLease> lease_;
  const std::unique_ptr<MemoryNodeLink> link_;
  std::vector<std::string> databases_;
  OpenReaderReply opened_;            // Changes while there is no task.
  std::function<uint64_t()> oldest_;  // Likewise.

  bool started_ = false;  // The task's: the first heartbeat is due an interval later.
  bool hurry_ = false;    // The task's.
  std::shared_ptr<ThreadPool> pool_;
  std::unique_ptr<ThreadPool::Task> renewing_;  // Null: nothing is renewed.
};

}  // namespace dlsm
