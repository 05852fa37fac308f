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
#include "util/fabric/fabric_server.h"
#include "util/fabric/file_descriptor.h"
#include "util/fabric/verbs_endpoint.h"

namespace dlsm {

// The regions, registered in `domain` with all one-sided access; in parts where one is larger than
// a registration may be.
struct VerbsExports {
  static Status Register(const VerbsDomain& domain, const std::vector<ExportedRegion*>& regions,
                         VerbsExports* exports);

  std::vector<VerbsRegistration> registrations;
  std::vector<VerbsRemoteMemory> memory;  // What the client is told of them.
};

// Thread-safe.
class VerbsClient {
 public:
  // `epoll` outlives this: it watches the life lines, each under its number.
  VerbsClient(std::shared_ptr<const VerbsDevice> device, std::vector<ExportedRegion*> regions,
              int epoll)
      : device_(std::move(device)), regions_(std::move(regions)), epoll_(epoll) {}

  // Makes this end of a queue pair whose other end is `offer`; `address` is this machine's on the
  // connection between them. The first call registers the regions.
  Status Arrange(const VerbsOffer& offer, const std::optional<VerbsGid>& address,
                 std::unique_ptr<VerbsEndpoint>* endpoint, VerbsAnswer* answer)
      LOCKS_EXCLUDED(mutex_);
  // Keeps it until the life line `number` is dropped. On an error it is gone: the client has been
  // cut off in the meantime.
  Status Keep(uint64_t number, FileDescriptor socket, std::unique_ptr<VerbsEndpoint> endpoint)
      LOCKS_EXCLUDED(mutex_);
  // Takes this end down, and only then closes the life line: the client waits for that.
  void Drop(uint64_t number) LOCKS_EXCLUDED(mutex_);
  // Takes everything down, for good. When it returns, the client reaches nothing any more.
  void CutOff() LOCKS_EXCLUDED(mutex_);

 private:
  struct Line {
    FileDescriptor socket;
    std::unique_ptr<VerbsEndpoint> endpoint;
  };
  void End(Line line) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const VerbsDevice> device_;
  const std::vector<ExportedRegion*> regions_;
  const int epoll_;

  port::Mutex mutex_;  // Protects what follows; held while memory is registered.
  bool cut_off_ GUARDED_BY(mutex_) = false;
  // In the order in which they need each other.
  std::shared_ptr<const VerbsDomain> domain_ GUARDED_BY(mutex_);
  VerbsExports exports_ GUARDED_BY(mutex_);
  std::map<uint64_t, Line> lines_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
