#include "util/fabric/verbs/verbs_memory.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "port/error_text.h"
#include "util/small_file.h"

namespace dlsm {
namespace {

constexpr const char* kLimitRemedy =
    "set \"ulimit -l unlimited\", LimitMEMLOCK=infinity in its systemd unit, or a memlock line in "
    "/etc/security/limits.conf";

uint64_t LockedBytesMax() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return RLIM_INFINITY;
  return limit.rlim_cur;
}

bool MayLockAnything() {
  constexpr int kCapIpcLock = 14;
  std::istringstream status(TextOf("/proc/self/status"));
  std::string name;
  while (status >> name) {
    if (name == "CapEff:") {
      uint64_t capabilities = 0;
      status >> std::hex >> capabilities;
      return ((capabilities >> kCapIpcLock) & 1) != 0;
    }
    std::getline(status, name);
  }
  return false;
}

}  // namespace

Status CheckLockedMemory(uint64_t bytes, uint64_t limit_bytes, bool may_exceed) {
  if (may_exceed || limit_bytes == RLIM_INFINITY || bytes <= limit_bytes) return Status::OK();
  return Status::IOError(
      fmt::format("{} bytes of memory are to be registered with an RDMA device, but this process "
                  "may lock no more than {}; {}",
                  bytes, limit_bytes, kLimitRemedy));
}

Status CheckLockedMemory(uint64_t bytes) {
  return CheckLockedMemory(bytes, LockedBytesMax(), MayLockAnything());
}

Status VerbsDomain::Create(std::shared_ptr<const VerbsDevice> device,
                           std::shared_ptr<const VerbsDomain>* domain) {
  const VerbsLibrary& library = device->library();
  VerbsPointer<ibv_pd> made(library.alloc_pd(device->context()), library.dealloc_pd);
  if (made == nullptr) {
    return Status::IOError(fmt::format("RDMA device {} gives no protection domain: {}",
                                       device->name(), port::ErrorText(errno)));
  }
  domain->reset(new VerbsDomain(std::move(device), std::move(made)));
  return Status::OK();
}

uint64_t VerbsDomain::registration_bytes_max() const {
  const uint64_t most = device_->attributes().max_mr_size;
  return most == 0 ? UINT64_MAX : most;  // Some devices know no bound.
}

uint64_t VerbsDomain::export_bytes_max() const {
  constexpr uint64_t kPage = 4096;  // So that no word of an atomic is cut.
  uint64_t most = registration_bytes_max();
  const uint64_t wished = device_->options().registration_bytes_max;
  if (wished != 0) most = std::min(most, wished);
  return std::max(most / kPage * kPage, kPage);
}

Status VerbsDomain::Deregister(VerbsRegistration* registration) const {
  if (*registration == nullptr) return Status::OK();
  const int error = library().dereg_mr(registration->get());
  if (error != 0) {
    return Status::IOError(
        fmt::format("RDMA device {} does not end the registration of {} bytes: {}", device_->name(),
                    (*registration)->length, port::ErrorText(error)));
  }
  static_cast<void>(registration->release());
  return Status::OK();
}

Status VerbsDomain::Register(char* data, size_t bytes, int access,
                             VerbsRegistration* registration) const {
  VerbsRegistration made(library().reg_mr(get(), data, bytes, access), library().dereg_mr);
  if (made != nullptr) {
    *registration = std::move(made);
    return Status::OK();
  }
  const int error = errno;
  const bool locked = error == ENOMEM || error == EAGAIN || error == EPERM;
  return Status::IOError(fmt::format(
      "RDMA device {} does not register {} bytes: {}{}", device_->name(), bytes,
      port::ErrorText(error),
      locked
          ? fmt::format("; the memory may be short, or the limit of locked memory ({}) too low: {}",
                        LockedBytesMax(), kLimitRemedy)
          : ""));
}

}  // namespace dlsm
