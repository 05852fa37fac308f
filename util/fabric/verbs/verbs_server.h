// The memory node's half of the verbs fabric: it sets up what lets a device answer one-sided
// requests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/verbs/verbs_counters.h"
#include "util/fabric/verbs/verbs_options.h"

namespace dlsm {

class VerbsDevice;

// Lets clients reach the regions through an RDMA device, which answers without any thread of this
// process. Each client (data token) has a protection domain and registrations of its own.
class VerbsFabricServer {
 public:
  // `regions` outlive the server. Their memory is taken and pinned as a trial: an error tells at
  // the start what the first client would have met.
  static Status Start(std::vector<ExportedRegion*> regions, const VerbsOptions& options,
                      std::unique_ptr<VerbsFabricServer>* server);
  // The same with a device that has been opened already.
  static Status Start(std::vector<ExportedRegion*> regions,
                      std::shared_ptr<const VerbsDevice> device,
                      std::unique_ptr<VerbsFabricServer>* server);
  virtual ~VerbsFabricServer() = default;

  // Reads and checks what a peer that has sent the verbs preamble shows: *token. The socket stays
  // the caller's. Blocks, on the caller's thread.
  virtual Status Greet(int socket, Deadline deadline, std::string* token) = 0;
  // Takes over the connected socket of a peer that was greeted, arranges a queue pair over it, and
  // keeps it as that one's life line. Blocks until that is done or has failed, for seconds at most.
  virtual Status Adopt(int socket, const std::string& token) = 0;
  // Instead of Adopt(): tells the peer that there is no descriptor for the queue pair. The socket
  // stays the caller's. Blocks.
  virtual Status Refuse(int socket, Deadline deadline) = 0;
  virtual void AllowToken(const std::string& token) = 0;
  // Destroys the queue pairs and the registrations that were made for it, which takes long where
  // much is registered. If it returns OK, the device has confirmed that they are gone, so nothing
  // that a client with this token has asked for can take effect any more. Otherwise something may,
  // and the caller must call again.
  virtual Status RevokeToken(const std::string& token) = 0;
  // Device, port, GID and MTU, for people.
  virtual std::string Describe() const = 0;
  virtual VerbsEventCounts Events() const = 0;
};

}  // namespace dlsm
