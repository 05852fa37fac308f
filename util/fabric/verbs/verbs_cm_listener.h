// The memory node's ear at the RDMA connection manager: it listens at every address of its port,
// and lets in the requests that show a nonce which was given out (verbs_cm_frame.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/fabric/verbs/verbs_cm_frame.h"
#include "util/fabric/verbs/verbs_cm_id.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Thread-safe.
class VerbsCmListener {
 public:
  // Accepts the request for what Expect() was called with, or returns why not. Called by the
  // listener's thread.
  using Accept = std::function<Status(uint64_t number, std::unique_ptr<VerbsCmId> request)>;

  // How long a request may take to come.
  static constexpr std::chrono::seconds kRequestMax{30};

  static Status Start(const VerbsDevice& device, Accept accept,
                      std::unique_ptr<VerbsCmListener>* listener);
  // Accept() is not called any more.
  ~VerbsCmListener();

  // Draws a nonce under which one request for `number` is let in, and sets where the client is to
  // send it: rather to `address`, which it has reached over TCP.
  void Expect(uint64_t number, const std::optional<VerbsGid>& address, VerbsCmAnswer* answer)
      LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    VerbsGid address{};
    std::unique_ptr<VerbsCmId> id;
  };
  struct Expected {
    uint64_t number = 0;
    Deadline until;
  };

  VerbsCmListener(std::shared_ptr<VerbsCmChannel> channel, std::vector<Place> places, Accept accept,
                  FileDescriptor wake);
  static Status ListenEverywhere(const VerbsDevice& device, VerbsCmChannel& channel,
                                 std::vector<Place>* places);
  void Run();
  void Handle(VerbsCmEvent event);
  Status LetIn(VerbsCmEvent& event) LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<VerbsCmChannel> channel_;
  const std::vector<Place> places_;
  const Accept accept_;
  const FileDescriptor wake_;  // An eventfd: the thread is to end.

  port::Mutex mutex_;  // Protects what follows.
  std::map<VerbsCmNonce, Expected> expected_ GUARDED_BY(mutex_);

  port::Thread thread_;
};

}  // namespace dlsm
