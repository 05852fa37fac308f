// What an RDMA device reports by itself: that a port went down, an address is gone, a queue pair or
// the whole device has failed. One thread for each opened device sleeps until there is something.
//
//   the device, a queue pair or its completion queue has failed, or its end's address is gone: the
//     queue pairs concerned are broken. Their owners find that at the next operation, which fails
//     with the cause named here.
//   the port is down: requests wait for it as long as they may (`ack_timeout`, `retries`), and new
//     queue pairs are refused. What fails meanwhile says so.
//
// Each is counted, and logged with its cause and what to do.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/verbs/verbs_counters.h"
#include "util/fabric/verbs/verbs_gid.h"
#include "util/fabric/verbs/verbs_library.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Whether a queue pair can still be used. Thread-safe.
class VerbsHealth {
 public:
  // One load. Whoever sees that it is broken finds the cause in why().
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  Status why() const LOCKS_EXCLUDED(mutex_);
  // The first cause stays.
  void Break(const Status& why) LOCKS_EXCLUDED(mutex_);
  // `call` is called when it breaks, or at once if it is broken. Until Forget(), when it is neither
  // running nor will be called any more.
  void OnBreak(std::function<void()> call) LOCKS_EXCLUDED(mutex_);
  void Forget() LOCKS_EXCLUDED(mutex_) { OnBreak({}); }

 private:
  std::atomic<bool> broken_{false};  // Set with the mutex held, after why_.
  mutable port::Mutex mutex_;        // Protects what follows. Held while on_break_ runs.
  Status why_ GUARDED_BY(mutex_);
  std::function<void()> on_break_ GUARDED_BY(mutex_);
};

// What an end of a queue pair was connected with.
struct VerbsOwnAddress {
  uint32_t gid_index = 0;
  VerbsGid gid{};
  uint16_t lid = 0;
};

// Thread-safe.
class VerbsEvents {
 public:
  // Whether an end with this address can still be reached; an error names what has changed.
  using CheckAddress = std::function<Status(const VerbsOwnAddress& own)>;

  // Takes the events of `context`, which outlives this. `name` and `port` are for messages.
  static Status Watch(const VerbsLibrary& library, ibv_context* context, const std::string& name,
                      uint8_t port, CheckAddress check, std::unique_ptr<VerbsEvents>* events);
  ~VerbsEvents();

  // From its creation to the moment before it is destroyed.
  std::shared_ptr<VerbsHealth> Enroll(const ibv_qp* queue_pair, const ibv_cq* completions)
      LOCKS_EXCLUDED(mutex_);
  // It is known to its peer by this address.
  void SetAddress(const ibv_qp* queue_pair, const VerbsOwnAddress& own) LOCKS_EXCLUDED(mutex_);
  void Leave(const ibv_qp* queue_pair) LOCKS_EXCLUDED(mutex_);

  VerbsEventCounts counts() const LOCKS_EXCLUDED(mutex_);
  // Not OK once the device has failed: nothing can be done with it any more.
  Status device() const LOCKS_EXCLUDED(mutex_);
  // While the port is down, what to append to the error of a transfer; else empty.
  std::string PortTrouble() const LOCKS_EXCLUDED(mutex_);

  // What the thread does with each event. Public for tests, which make events of their own.
  void Take(const ibv_async_event& event) LOCKS_EXCLUDED(mutex_);

 private:
  struct Member {
    const ibv_cq* completions = nullptr;
    bool addressed = false;
    VerbsOwnAddress own;
    std::shared_ptr<VerbsHealth> health;
  };

  VerbsEvents(const VerbsLibrary& library, ibv_context* context, std::string name, uint8_t port,
              CheckAddress check, FileDescriptor wake);
  void Run();
  // Takes what there is. False: there will be no more.
  bool TakeAll();
  void DeviceFailed(const char* what) LOCKS_EXCLUDED(mutex_);
  void AddressChanged(const char* what) LOCKS_EXCLUDED(mutex_);
  void QueuePairFailed(const ibv_async_event& event, const char* what) LOCKS_EXCLUDED(mutex_);
  void PortChanged(bool down) LOCKS_EXCLUDED(mutex_);

  const VerbsLibrary& library_;
  ibv_context* const context_;
  const std::string name_;
  const uint8_t port_;
  const CheckAddress check_;
  const FileDescriptor wake_;  // An eventfd: the thread is to end.

  mutable port::Mutex mutex_;  // Protects what follows. Not held when a health's mutex is taken.
  VerbsEventCounts counts_ GUARDED_BY(mutex_);
  Status device_ GUARDED_BY(mutex_);
  bool port_down_ GUARDED_BY(mutex_) = false;
  std::map<const ibv_qp*, Member> members_ GUARDED_BY(mutex_);

  port::Thread thread_;  // Last: it uses all of the above.
};

}  // namespace dlsm
