#include "util/fabric/verbs_client.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                        IBV_ACCESS_REMOTE_ATOMIC;
// What fits an answer, with room to spare.
constexpr size_t kRegistrationsMax = 4096;

}  // namespace

Status VerbsExports::Register(const VerbsDomain& domain,
                              const std::vector<ExportedRegion*>& regions, VerbsExports* exports) {
  const uint64_t part_max = domain.registration_bytes_max();
  VerbsExports made;
  for (const ExportedRegion* region : regions) {
    const uint64_t all = region->info().bytes;
    for (uint64_t offset = 0; offset < all; offset += made.memory.back().bytes) {
      if (made.memory.size() == kRegistrationsMax) {
        return Status::InvalidArgument(
            fmt::format("RDMA device {} registers no more than {} bytes at once, which makes more "
                        "than {} parts of the memory to export; offer less",
                        domain.device().name(), part_max, kRegistrationsMax));
      }
      const uint64_t bytes = std::min(part_max, all - offset);
      VerbsRegistration registration{nullptr, nullptr};
      DLSM_RETURN_IF_ERROR(domain.Register(region->data() + offset, bytes, kAccess, &registration));
      made.memory.push_back(VerbsRemoteMemory{region->info().id, registration->rkey, offset, bytes,
                                              reinterpret_cast<uintptr_t>(registration->addr)});
      made.registrations.push_back(std::move(registration));
    }
  }
  *exports = std::move(made);
  return Status::OK();
}

Status VerbsClient::Arrange(const VerbsOffer& offer, const std::optional<VerbsGid>& address,
                            std::unique_ptr<VerbsEndpoint>* endpoint, VerbsAnswer* answer) {
  const port::MutexLock lock(mutex_);
  if (cut_off_) return Status::IOError("this client has been cut off");
  if (domain_ == nullptr) {
    std::shared_ptr<const VerbsDomain> domain;
    DLSM_RETURN_IF_ERROR(VerbsDomain::Create(device_, &domain));
    DLSM_RETURN_IF_ERROR(VerbsExports::Register(*domain, regions_, &exports_));
    domain_ = std::move(domain);
  }
  std::unique_ptr<VerbsEndpoint> made;
  DLSM_RETURN_IF_ERROR(VerbsEndpoint::Create(domain_, VerbsEndpoint::Role::kServer, &made));
  DLSM_RETURN_IF_ERROR(made->Describe(offer.end, address, &answer->end));
  DLSM_RETURN_IF_ERROR(made->Connect(offer.end));
  answer->memory = exports_.memory;
  *endpoint = std::move(made);
  return Status::OK();
}

Status VerbsClient::Keep(uint64_t number, FileDescriptor socket,
                         std::unique_ptr<VerbsEndpoint> endpoint) {
  Line line{std::move(socket), std::move(endpoint)};
  const port::MutexLock lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = number;
  if (cut_off_ || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, line.socket.get(), &event) != 0) {
    const std::string why = cut_off_ ? "it has been cut off" : std::strerror(errno);
    End(std::move(line));
    return Status::IOError("its life line is not kept: " + why);
  }
  lines_.emplace(number, std::move(line));
  return Status::OK();
}

void VerbsClient::Drop(uint64_t number) {
  const port::MutexLock lock(mutex_);
  const auto found = lines_.find(number);
  if (found == lines_.end()) return;
  End(std::move(found->second));
  lines_.erase(found);
}

void VerbsClient::CutOff() {
  const port::MutexLock lock(mutex_);
  cut_off_ = true;
  for (auto& [number, line] : lines_) End(std::move(line));
  lines_.clear();
  // An end that is just being arranged keeps its domain, but reaches nothing in it.
  exports_ = {};
  domain_.reset();
}

void VerbsClient::End(Line line) {
  line.endpoint.reset();
  // Other descriptors of this socket may be open for a moment: closing it is not enough.
  (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, line.socket.get(), nullptr);
  (void)::shutdown(line.socket.get(), SHUT_RDWR);
}

}  // namespace dlsm
