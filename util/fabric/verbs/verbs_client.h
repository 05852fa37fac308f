// What a memory node holds for one client of its verbs fabric: a protection domain with the
// exported regions registered in it, and the server's ends of the client's queue pairs.
//
// Keys and queue pairs of one client are of no use with those of another, and nothing but exported
// regions is registered. All of a region is open to each client that the memory node has let in:
// grants inside of a region are kept by convention, not by the device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/verbs/verbs_endpoint.h"
#include "util/file_descriptor.h"

namespace dlsm {

// The regions, registered in `domain` with all one-sided access; in parts where one is larger than
// a registration may be.
struct VerbsExports {
  static Status Register(const VerbsDomain& domain, const std::vector<ExportedRegion*>& regions,
                         VerbsExports* exports);
  // OK: the device has confirmed that all are gone. The others are kept.
  Status Deregister(const VerbsDomain& domain);

  std::vector<VerbsRegistration> registrations;
  std::vector<VerbsRemoteMemory> memory;  // What the client is told of them.
};

// Thread-safe.
class VerbsClient {
 public:
  struct Line {
    std::shared_ptr<const FileDescriptor> socket;
    std::unique_ptr<VerbsEndpoint> endpoint;
    VerbsLimits peer;  // Where the connection manager connects it.
  };
  // What the client has had. It takes long to destroy: in this order the parts need each other.
  struct Remains {
    std::shared_ptr<const VerbsDomain> domain;
    VerbsExports exports;
    std::vector<Line> lines;
    // Lines whose queue pair the device did not destroy. They stay open, so that their client does
    // not rely on their end.
    std::vector<Line> stuck;

    bool empty() const { return domain == nullptr && lines.empty() && stuck.empty(); }
    // Ends what the client could reach memory with. OK: the device has confirmed all of it.
    // Otherwise what is left is kept, and this can be tried again, as it can where it throws
    // std::bad_alloc.
    Status TakeDown();
  };

  // `epoll` outlives this: it watches the life lines, each under its number.
  VerbsClient(std::shared_ptr<const VerbsDevice> device, std::vector<ExportedRegion*> regions,
              int epoll)
      : device_(std::move(device)), regions_(std::move(regions)), epoll_(epoll) {}

  // Makes this end of a queue pair whose other end is `offer`, and keeps it until the life line
  // `number`, which is `socket`, is dropped; `address` is this machine's on it. The first call
  // registers the regions. What is not kept when this returns an error is gone.
  Status Arrange(const VerbsOffer& offer, const std::optional<VerbsGid>& address, uint64_t number,
                 std::shared_ptr<const FileDescriptor> socket, VerbsAnswer* answer)
      LOCKS_EXCLUDED(setup_mutex_, mutex_);
  // The same for a queue pair that the connection manager connects: it can be reached once a
  // request for it has come to Accept().
  Status Arrange(const VerbsCmOffer& offer, uint64_t number,
                 std::shared_ptr<const FileDescriptor> socket, VerbsCmAnswer* answer)
      LOCKS_EXCLUDED(setup_mutex_, mutex_);
  Status Accept(uint64_t number, std::unique_ptr<VerbsCmId> request) LOCKS_EXCLUDED(mutex_);
  // Takes this end down, and only then shuts the life line: the client waits for that. Throws
  // std::bad_alloc where there is no memory for what it returns, and CutOff() does: the lines are
  // there still then, and it can be tried again.
  Remains Drop(uint64_t number) LOCKS_EXCLUDED(mutex_);
  // Lets the client in no more, and destroys its queue pairs. Waits neither for a registration nor
  // for the end of one: that the client reaches nothing is known once Remains::TakeDown() says so.
  Remains CutOff() LOCKS_EXCLUDED(mutex_);

 private:
  // Sets *domain and *memory to the client's.
  Status Prepare(std::shared_ptr<const VerbsDomain>* domain, std::vector<VerbsRemoteMemory>* memory)
      LOCKS_EXCLUDED(setup_mutex_, mutex_);
  Status Keep(uint64_t number, Line line) LOCKS_EXCLUDED(mutex_);
  // For the lines that End() moves, `count` of them, before it begins: one whose queue pair is gone
  // and that is nowhere could not be ended again, and one that is stuck must not be lost.
  void MakeRoom(size_t count, Remains* remains) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves it to `remains`, or to stuck_ if its queue pair may still be reached.
  void End(Line line, Remains* remains) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const VerbsDevice> device_;
  const std::vector<ExportedRegion*> regions_;
  const int epoll_;

  port::Mutex setup_mutex_;  // Held while memory is registered. Taken before mutex_.
  port::Mutex mutex_;        // Protects what follows.
  bool cut_off_ GUARDED_BY(mutex_) = false;
  // In the order in which they need each other.
  std::shared_ptr<const VerbsDomain> domain_ GUARDED_BY(mutex_);
  VerbsExports exports_ GUARDED_BY(mutex_);
  std::map<uint64_t, Line> lines_ GUARDED_BY(mutex_);
  // Their life lines stay open, so that their client does not rely on their end.
  std::vector<Line> stuck_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
