#include "util/fabric/verbs/verbs_cm_listener.h"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "port/error_text.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// The manager's ports are its own, but an iWARP device may take a TCP port of that number, which
// somebody may have.
constexpr int kPortsTried = 8;

// This machine's addresses that may be those of `device`.
std::vector<VerbsGid> Candidates(const VerbsDevice& device) {
  std::vector<VerbsGid> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(all, &::freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const std::optional<VerbsGid> address = GidOfSocketAddress(each->ifa_addr);
    if (!address.has_value() || (each->ifa_flags & IFF_UP) == 0) continue;
    if ((each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    // A link-local address of IPv6 means nothing without the name of the client's interface.
    if (!IsIpv4(*address) && IsLinkLocal(*address)) continue;
    if (device.address().has_value() && device.address() != address) continue;
    if (device.netdev().has_value() && ::if_nametoindex(each->ifa_name) != *device.netdev()) {
      continue;
    }
    found.push_back(*address);
  }
  return found;
}

Status ListenAt(const VerbsGid& address, const VerbsDevice& device, VerbsCmChannel& channel,
                std::unique_ptr<VerbsCmId>* id) {
  const auto port = static_cast<uint16_t>(device.options().cm_port);
  Status status;
  for (int i = 0; i < (port == 0 ? kPortsTried : 1); ++i) {
    DLSM_RETURN_IF_ERROR(channel.NewId(id));
    status = (*id)->Listen(address, port, device);
    if (status.ok() || !(*id)->IsOn(device)) break;
  }
  return status;
}

VerbsCmNonce DrawNonce() {
  std::random_device random;
  VerbsCmNonce nonce{};
  for (uint8_t& byte : nonce) byte = static_cast<uint8_t>(random());
  return nonce;
}

}  // namespace

Status VerbsCmListener::ListenEverywhere(const VerbsDevice& device, VerbsCmChannel& channel,
                                         std::vector<Place>* places) {
  std::string tried;
  for (const VerbsGid& address : Candidates(device)) {
    Place place{address, nullptr};
    const Status status = ListenAt(address, device, channel, &place.id);
    if (status.ok()) {
      places->push_back(std::move(place));
    } else {
      tried += fmt::format(" {}: {};", GidToString(address), status.message().ToString());
    }
  }
  if (!places->empty()) return Status::OK();
  return Status::IOError(fmt::format(
      "RDMA device {} port {} has no address at which the connection manager can listen; give its "
      "network interface one, or choose another cm_port ({})",
      device.name(), device.port(), tried.empty() ? "there is none to try" : tried));
}

Status VerbsCmListener::Start(const VerbsDevice& device, Accept accept,
                              std::unique_ptr<VerbsCmListener>* listener) {
  std::shared_ptr<VerbsCmChannel> channel;
  std::vector<Place> places;
  DLSM_RETURN_IF_ERROR(VerbsCmChannel::Create(&channel));
  DLSM_RETURN_IF_ERROR(ListenEverywhere(device, *channel, &places));
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return CannotOpen("waiting for clients", errno);
  return StartingThreads([&] {
    listener->reset(new VerbsCmListener(std::move(channel), std::move(places), std::move(accept),
                                        std::move(wake)));
    return Status::OK();
  });
}

VerbsCmListener::VerbsCmListener(std::shared_ptr<VerbsCmChannel> channel, std::vector<Place> places,
                                 Accept accept, FileDescriptor wake)
    : channel_(std::move(channel)),
      places_(std::move(places)),
      accept_(std::move(accept)),
      wake_(std::move(wake)),
      thread_([this] { Run(); }) {}

VerbsCmListener::~VerbsCmListener() {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void VerbsCmListener::Expect(uint64_t number, const std::optional<VerbsGid>& address,
                             VerbsCmAnswer* answer) {
  const auto suits = [&](const Place& place) {
    if (!address.has_value()) return 0;
    if (place.address == address) return 2;
    return IsIpv4(place.address) == IsIpv4(*address) ? 1 : 0;
  };
  const Place& place =
      *std::max_element(places_.begin(), places_.end(),
                        [&](const Place& a, const Place& b) { return suits(a) < suits(b); });
  answer->address = place.address;
  answer->port = place.id->port();
  answer->nonce = DrawNonce();
  const port::MutexLock lock(mutex_);
  std::erase_if(expected_, [](const auto& each) { return each.second.until.Passed(); });
  expected_.emplace(answer->nonce, Expected{number, Deadline::In(kRequestMax)});
}

void VerbsCmListener::Run() {
  while (true) {
    pollfd entries[2] = {{channel_->descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) break;
    if (entries[1].revents != 0) return;
    bool taken = true;
    while (taken) {
      VerbsCmEvent event;
      Status status;
      bool told = false;
      IfMemoryPermits([&] {
        status = channel_->Take(&event, &taken);
        told = true;
      });
      if (!told) break;  // The next round looks again.
      if (!status.ok()) {
        Log().Critical("no client can connect over RDMA any more: {}", status.ToString());
        return;
      }
      if (taken) Handle(std::move(event));
    }
  }
  Log().Critical("no client can connect over RDMA any more: poll: {}", port::ErrorText(errno));
}

void VerbsCmListener::Handle(VerbsCmEvent event) {
  // Ends of connections are told by their life lines, which know them better.
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    Log().Error("an RDMA device has been removed: no client can connect to it");
  }
  if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  const Status status = WithinMemory([&] { return LetIn(event); }, &OutOfNodeMemory);
  if (status.ok()) return;
  Log().Warn("a connection over RDMA was refused: {}", status.message().ToStringView());
}

Status VerbsCmListener::LetIn(VerbsCmEvent& event) {
  VerbsCmGreeting greeting;
  Status status = greeting.Decode(event.private_data);
  uint64_t number = 0;
  if (status.ok()) {
    const port::MutexLock lock(mutex_);
    const auto found = expected_.find(greeting.nonce);
    if (found == expected_.end() || found->second.until.Passed()) {
      status = Status::InvalidArgument("it showed a nonce that is not, or no longer, good");
    } else {
      number = found->second.number;
      expected_.erase(found);
    }
  }
  if (!status.ok()) {
    event.request->Reject();
    return status;
  }
  return accept_(number, std::move(event.request));
}

}  // namespace dlsm
