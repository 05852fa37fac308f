// Memory that an RDMA device may reach: protection domains, registrations, and the limit that the
// kernel sets to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_device.h"
#include "util/fabric/verbs/verbs_library.h"

namespace dlsm {

// Registered memory is pinned, and counts against RLIMIT_MEMLOCK each time that it is registered,
// unless this process may lock what it wants. IOError with the remedy if `bytes` would exceed it.
Status CheckLockedMemory(uint64_t bytes);
// The rule itself: `limit_bytes` as getrlimit() tells it.
Status CheckLockedMemory(uint64_t bytes, uint64_t limit_bytes, bool may_exceed);

// Whether its end was confirmed is not known when it is just destroyed: see Deregister().
using VerbsRegistration = VerbsPointer<ibv_mr>;

// What is registered here can be reached through this domain's queue pairs only. Thread-safe.
class VerbsDomain {
 public:
  static Status Create(std::shared_ptr<const VerbsDevice> device,
                       std::shared_ptr<const VerbsDomain>* domain);

  const VerbsDevice& device() const { return *device_; }
  const VerbsLibrary& library() const { return device_->library(); }
  ibv_pd* get() const { return domain_.get(); }
  // The most that one registration may have.
  uint64_t registration_bytes_max() const;
  // The most of an exported region that one may have: less, where the options say so.
  uint64_t export_bytes_max() const;

  // `access` is a set of ibv_access_flags. The registration ends before this domain and the memory.
  Status Register(char* data, size_t bytes, int access, VerbsRegistration* registration) const;
  // OK: the device has confirmed that it does not reach that memory any more. Otherwise the
  // registration stays, and this can be tried again.
  Status Deregister(VerbsRegistration* registration) const;

 private:
  VerbsDomain(std::shared_ptr<const VerbsDevice> device, VerbsPointer<ibv_pd> domain)
      : device_(std::move(device)), domain_(std::move(domain)) {}

  const std::shared_ptr<const VerbsDevice> device_;
  const VerbsPointer<ibv_pd> domain_;
};

}  // namespace dlsm
