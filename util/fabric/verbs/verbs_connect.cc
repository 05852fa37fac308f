#include "util/fabric/verbs/verbs_connect.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "util/fabric/verbs/verbs_cm_connect.h"
#include "util/fabric/verbs/verbs_cm_library.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What a connection needs to be of any use: its first slabs.
constexpr uint64_t kLockedBytesMin = uint64_t{16} << 20;

std::shared_ptr<const VerbsPeer> MakePeer(const FabricPeer& peer) {
  auto made = std::make_shared<VerbsPeer>();
  made->node = peer.node;
  made->name = PeerName(peer);
  for (const RegionInfo& region : peer.regions) {
    made->regions.Add(MappedRegion{region.id, nullptr, region.bytes});
  }
  return made;
}

// Whether `memory`, which is sorted, has all of `region` without a gap.
bool Covers(const std::vector<VerbsRemoteMemory>& memory, const RegionInfo& region) {
  uint64_t covered = 0;
  for (const VerbsRemoteMemory& each : memory) {
    if (each.region == region.id && each.offset == covered) covered += each.bytes;
  }
  return covered == region.bytes;
}

Status MakeDomain(std::shared_ptr<const VerbsDevice> device,
                  std::shared_ptr<const VerbsDomain>* domain) {
  const VerbsCmLibrary* manager = nullptr;
  if (device->connects_by_manager()) DLSM_RETURN_IF_ERROR(VerbsCmLibrary::Get(&manager));
  DLSM_RETURN_IF_ERROR(CheckLockedMemory(kLockedBytesMin));
  return VerbsDomain::Create(std::move(device), domain);
}

Status CheckToken(const FabricPeer& peer) {
  if (peer.data_token.size() == kVerbsTokenBytes) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("a data token has {} bytes, not {}", kVerbsTokenBytes, peer.data_token.size()));
}

// A process that may not use the memory of that node has buffers wherever they come to lie.
int NodeOf(const VerbsDevice& device) {
  return CheckNumaNode(device.numa_node()).ok() ? device.numa_node() : kNoNumaNode;
}

Status OpenDomain(const VerbsOptions& options, std::shared_ptr<const VerbsDomain>* domain) {
  std::shared_ptr<const VerbsDevice> device;
  DLSM_RETURN_IF_ERROR(VerbsDevice::Open(options, &device));
  return MakeDomain(std::move(device), domain);
}

Status ArrangeByHello(const std::string& peer, const std::string& token, int socket,
                      Deadline deadline, VerbsEndpoint* endpoint,
                      std::vector<VerbsRemoteMemory>* memory) {
  VerbsOffer offer;
  DLSM_RETURN_IF_ERROR(endpoint->Describe({}, SocketAddress(socket), &offer.end));
  const std::string greeting = std::string(kVerbsPreamble) + token +
                               EncodeVerbsFrame(VerbsFrameKind::kOffer, offer.Encode());
  DLSM_RETURN_IF_ERROR(SendWhole(peer, socket, greeting, deadline));
  std::string body;
  VerbsAnswer answer;
  DLSM_RETURN_IF_ERROR(ReceiveVerbsAnswer(peer, socket, deadline, VerbsFrameKind::kAnswer, &body));
  DLSM_RETURN_IF_ERROR(answer.Decode(body));
  DLSM_RETURN_IF_ERROR(endpoint->Connect(answer.end));
  *memory = std::move(answer.memory);
  return Status::OK();
}

}  // namespace

Status VerbsConnection::Check(const VerbsOptions& options) {
  std::shared_ptr<const VerbsDomain> domain;
  return OpenDomain(options, &domain);
}

Status VerbsConnection::CheckAtomics(const VerbsOptions& options) {
  std::shared_ptr<const VerbsDomain> domain;
  DLSM_RETURN_IF_ERROR(OpenDomain(options, &domain));
  if (domain->device().has_atomics()) return Status::OK();
  return Status::NotSupported(
      fmt::format("{} has no atomics, which a database needs", domain->device().Describe()));
}

Status VerbsConnection::Connect(const VerbsOptions& options, int numa_node, const FabricPeer& peer,
                                std::unique_ptr<FabricConnection>* connection) {
  DLSM_RETURN_IF_ERROR(CheckToken(peer));
  std::shared_ptr<const VerbsDevice> device;
  DLSM_RETURN_IF_ERROR(VerbsDevice::Open(options, &device));
  return ConnectThrough(std::move(device), numa_node, peer, connection);
}

Status VerbsConnection::ConnectThrough(std::shared_ptr<const VerbsDevice> device, int numa_node,
                                       const FabricPeer& peer,
                                       std::unique_ptr<FabricConnection>* connection) {
  DLSM_RETURN_IF_ERROR(CheckToken(peer));
  std::shared_ptr<const VerbsDomain> domain;
  PeerDialer dialer;
  DLSM_RETURN_IF_ERROR(MakeDomain(std::move(device), &domain));
  DLSM_RETURN_IF_ERROR(PeerDialer::Resolve(peer, &dialer));
  if (numa_node == kNumaNodeOfDevice) numa_node = NodeOf(domain->device());
  connection->reset(new VerbsConnection(peer, std::move(dialer), std::move(domain), numa_node));
  return Status::OK();
}

VerbsConnection::VerbsConnection(const FabricPeer& peer, PeerDialer dialer,
                                 std::shared_ptr<const VerbsDomain> domain, int numa_node)
    : options_(domain->device().options()),
      dialer_(std::move(dialer)),
      token_(peer.data_token),
      peer_(MakePeer(peer)),
      regions_(peer.regions),
      domain_(std::move(domain)),
      numa_node_(numa_node),
      buffers_(std::make_shared<VerbsBuffers>(domain_, numa_node)) {}

Status VerbsConnection::NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) {
  VerbsSlots::Slot slot = books_.slots.Take(options_.queue_pairs_max);
  if (slot == nullptr) return NewShare(deadline, queue_pair);
  std::unique_ptr<VerbsQueuePair> own;
  DLSM_RETURN_IF_ERROR(NewOwn(deadline, std::move(slot), &own));
  *queue_pair = std::move(own);
  return Status::OK();
}

Status VerbsConnection::NewOwn(Deadline deadline, VerbsSlots::Slot slot,
                               std::unique_ptr<VerbsQueuePair>* queue_pair) {
  // What is pending may be so because of this.
  DLSM_RETURN_IF_ERROR(domain_->device().events().device());
  if (books_.farewells.Pending()) return FarewellPending(peer_->name, books_.farewells);
  FileDescriptor socket;
  std::unique_ptr<VerbsEndpoint> endpoint;
  std::vector<VerbsRemoteMemory> memory;
  DLSM_RETURN_IF_ERROR(dialer_.Dial(deadline, &socket));
  DLSM_RETURN_IF_ERROR(VerbsEndpoint::Create(domain_, VerbsEndpoint::Role::kClient, &endpoint));
  DLSM_RETURN_IF_ERROR(
      ArrangeQueuePair(peer_->name, token_, socket.get(), deadline, endpoint.get(), &memory));
  for (const RegionInfo& region : regions_) {
    if (Covers(memory, region)) continue;
    return Status::IOError(
        fmt::format("{} does not offer the {} bytes of its region {} over RDMA: has it restarted?",
                    peer_->name, region.bytes, static_cast<uint32_t>(region.id)));
  }
  *queue_pair =
      std::make_unique<VerbsQueuePair>(std::move(endpoint), std::move(socket), peer_,
                                       std::move(memory), buffers_, std::move(slot), books_);
  return Status::OK();
}

Status VerbsConnection::NewShare(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) {
  const port::MutexLock lock(mutex_);
  if (shared_ == nullptr || shared_->closed()) {
    std::unique_ptr<VerbsQueuePair> own;
    DLSM_RETURN_IF_ERROR(NewOwn(deadline, /*slot=*/nullptr, &own));
    if (shared_ == nullptr) {
      Log().Warn(
          "there are {} queue pairs to {}: further threads share one; raise queue_pairs of "
          "the RDMA device if it has room",
          options_.queue_pairs_max, peer_->name);
    }
    shared_ = std::make_shared<VerbsSharedCore>(std::move(own));
  }
  shares_.fetch_add(1, std::memory_order_relaxed);  // A count orders nothing.
  *queue_pair = ShareQueuePair(shared_);
  return Status::OK();
}

std::string VerbsConnection::Describe() const {
  const VerbsCounts counts = books_.counters.Sum();
  const std::string events = DescribeEvents(domain_->device().events().counts());
  return fmt::format(
      "verbs over {}; {} queue pairs, {} shared; {} work requests, {} doorbells, {} completions, "
      "{} "
      "sleeps, {} bytes copied, {} registrations{}{}",
      domain_->device().Describe(), books_.counters.live(), shares_.load(std::memory_order_relaxed),
      counts.work_requests, counts.doorbells, counts.completions, counts.sleeps,
      counts.copied_bytes, buffers_->registrations(),
      events.empty() ? "" : "; device events: ", events);
}

Status ArrangeQueuePair(const std::string& peer, const std::string& token, int socket,
                        Deadline deadline, VerbsEndpoint* endpoint,
                        std::vector<VerbsRemoteMemory>* memory) {
  const bool by_manager = endpoint->domain().device().connects_by_manager();
  DLSM_RETURN_IF_ERROR((by_manager ? ArrangeByManager : ArrangeByHello)(
      peer, token, socket, deadline, endpoint, memory));
  std::sort(memory->begin(), memory->end(),
            [](const VerbsRemoteMemory& a, const VerbsRemoteMemory& b) {
              return std::tie(a.region, a.offset) < std::tie(b.region, b.offset);
            });
  return Status::OK();
}

}  // namespace dlsm
