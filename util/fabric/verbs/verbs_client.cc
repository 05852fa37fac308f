#include "util/fabric/verbs/verbs_client.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "port/allocation_point.h"
#include "port/error_text.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A device without atomics may refuse what asks for them.
int AccessOf(const VerbsDevice& device) {
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
         (device.has_atomics() ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

// What fits an answer, with room to spare.
constexpr size_t kRegistrationsMax = 4096;

}  // namespace

Status VerbsExports::Register(const VerbsDomain& domain,
                              const std::vector<ExportedRegion*>& regions, VerbsExports* exports) {
  const int access = AccessOf(domain.device());
  const uint64_t part_max = domain.export_bytes_max();
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
      DLSM_RETURN_IF_ERROR(domain.Register(region->data() + offset, bytes, access, &registration));
      made.memory.push_back(VerbsRemoteMemory{region->info().id, registration->rkey, offset, bytes,
                                              reinterpret_cast<uintptr_t>(registration->addr)});
      made.registrations.push_back(std::move(registration));
    }
  }
  *exports = std::move(made);
  return Status::OK();
}

Status VerbsExports::Deregister(const VerbsDomain& domain) {
  Status first;
  for (VerbsRegistration& registration : registrations) {
    KeepFirstError(domain.Deregister(&registration), &first);
  }
  std::erase_if(registrations, [](const VerbsRegistration& each) { return each == nullptr; });
  return first;
}

// Either would do by itself, since a key is good on queue pairs of its own domain only. Both are
// asked for: memory that is given to others is worth not relying on one answer.
Status VerbsClient::Remains::TakeDown() {
  port::AllocationPoint("queue pairs taken down");
  lines.reserve(lines.size() + stuck.size());  // One that has gone could not be stopped again.
  Status first_error;
  for (Line& line : stuck) {
    if (!line.endpoint->Stop()) {
      KeepFirstError(
          Status::IOError("the RDMA device does not destroy a queue pair of this client"),
          &first_error);
      continue;
    }
    (void)::shutdown(line.socket->get(), SHUT_RDWR);
    lines.push_back(std::move(line));
  }
  std::erase_if(stuck, [](const Line& line) { return line.endpoint == nullptr; });
  if (domain != nullptr) KeepFirstError(exports.Deregister(*domain), &first_error);
  return first_error;
}

Status VerbsClient::Prepare(std::shared_ptr<const VerbsDomain>* domain,
                            std::vector<VerbsRemoteMemory>* memory) {
  const auto cut_off = [] { return Status::IOError("this client has been cut off"); };
  const port::MutexLock setup(setup_mutex_);
  {
    const port::MutexLock lock(mutex_);
    if (cut_off_) return cut_off();
    *domain = domain_;
    *memory = exports_.memory;
  }
  if (*domain != nullptr) return Status::OK();
  VerbsExports exports;
  DLSM_RETURN_IF_ERROR(VerbsDomain::Create(device_, domain));
  DLSM_RETURN_IF_ERROR(VerbsExports::Register(**domain, regions_, &exports));
  const port::MutexLock lock(mutex_);
  if (cut_off_) return cut_off();
  domain_ = *domain;
  exports_ = std::move(exports);
  *memory = exports_.memory;
  return Status::OK();
}

Status VerbsClient::Arrange(const VerbsOffer& offer, const std::optional<VerbsGid>& address,
                            uint64_t number, std::shared_ptr<const FileDescriptor> socket,
                            VerbsAnswer* answer) {
  std::shared_ptr<const VerbsDomain> domain;
  DLSM_RETURN_IF_ERROR(Prepare(&domain, &answer->memory));
  Line line{std::move(socket), nullptr, {}};
  DLSM_RETURN_IF_ERROR(
      VerbsEndpoint::Create(std::move(domain), VerbsEndpoint::Role::kServer, &line.endpoint));
  DLSM_RETURN_IF_ERROR(line.endpoint->Describe(offer.end, address, &answer->end));
  DLSM_RETURN_IF_ERROR(line.endpoint->Connect(offer.end));
  // Before the answer is sent: so whom the client can reach is known here, and can be cut off.
  return Keep(number, std::move(line));
}

Status VerbsClient::Arrange(const VerbsCmOffer& offer, uint64_t number,
                            std::shared_ptr<const FileDescriptor> socket, VerbsCmAnswer* answer) {
  if (offer.limits.iwarp != device_->is_iwarp()) {
    return Status::InvalidArgument(fmt::format("{} cannot be reached from a device that {} iWARP",
                                               device_->Describe(),
                                               offer.limits.iwarp ? "is" : "is not"));
  }
  std::shared_ptr<const VerbsDomain> domain;
  DLSM_RETURN_IF_ERROR(Prepare(&domain, &answer->memory));
  Line line{std::move(socket), nullptr, offer.limits};
  DLSM_RETURN_IF_ERROR(
      VerbsEndpoint::Create(std::move(domain), VerbsEndpoint::Role::kServer, &line.endpoint));
  DLSM_RETURN_IF_ERROR(line.endpoint->DescribeLimits(offer.limits, &answer->limits));
  return Keep(number, std::move(line));
}

Status VerbsClient::Accept(uint64_t number, std::unique_ptr<VerbsCmId> request) {
  const auto let_in = [&](Line& line) {
    DLSM_RETURN_IF_ERROR(line.endpoint->InitialiseBy(*request));
    DLSM_RETURN_IF_ERROR(line.endpoint->ConnectBy(*request, line.peer));
    return request->Accept(*line.endpoint->queue_pair(), line.endpoint->ReadsWith(line.peer));
  };
  // Held to the end: who cuts the client off meanwhile does so after it has been let in.
  const port::MutexLock lock(mutex_);
  const auto found = lines_.find(number);
  Status status = Status::IOError("its life line has ended");
  if (found != lines_.end()) status = let_in(found->second);
  if (status.ok()) {
    found->second.endpoint->Keep(std::move(request));
  } else {
    request->Reject();
  }
  return status;
}

Status VerbsClient::Keep(uint64_t number, Line line) {
  const port::MutexLock lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = number;
  if (cut_off_) return Status::IOError("this client has been cut off");
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, line.socket->get(), &event) != 0) {
    return Status::IOError(fmt::format("its life line is not watched: {}", port::ErrorText(errno)));
  }
  // The thread that watches the lines takes this end down then. The client hears nothing of this
  // shutdown: it must not before this end is gone.
  line.endpoint->health().OnBreak(
      [socket = line.socket] { (void)::shutdown(socket->get(), SHUT_RD); });
  lines_.emplace(number, std::move(line));
  return Status::OK();
}

VerbsClient::Remains VerbsClient::Drop(uint64_t number) {
  Remains remains;
  const port::MutexLock lock(mutex_);
  const auto found = lines_.find(number);
  if (found == lines_.end()) return remains;
  MakeRoom(1, &remains);
  End(std::move(found->second), &remains);
  lines_.erase(found);
  return remains;
}

VerbsClient::Remains VerbsClient::CutOff() {
  Remains remains;
  const port::MutexLock lock(mutex_);
  cut_off_ = true;
  // Cheap, and no new request is begun after that; so the rest finds the device idle.
  for (const auto& [number, line] : lines_) line.endpoint->Fail();
  MakeRoom(lines_.size(), &remains);
  for (auto& [number, line] : lines_) End(std::move(line), &remains);
  lines_.clear();
  // An end that is just being arranged keeps its domain, but its client is not told of it.
  remains.domain = std::move(domain_);
  remains.exports = std::exchange(exports_, {});
  remains.stuck = std::exchange(stuck_, {});
  return remains;
}

void VerbsClient::MakeRoom(size_t count, Remains* remains) {
  port::AllocationPoint("ended queue pairs");
  remains->lines.reserve(count);
  stuck_.reserve(stuck_.size() + count);
}

void VerbsClient::End(Line line, Remains* remains) {
  (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, line.socket->get(), nullptr);
  if (!line.endpoint->Stop()) {
    stuck_.push_back(std::move(line));
    return;
  }
  // Other descriptors of this socket may be open for a moment: closing it is not enough.
  (void)::shutdown(line.socket->get(), SHUT_RDWR);
  remains->lines.push_back(std::move(line));
}

}  // namespace dlsm
