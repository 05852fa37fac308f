#include "util/fabric/verbs/verbs_endpoint.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "port/allocation_point.h"
#include "port/error_text.h"
#include "util/file_descriptor.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint32_t kPacketNumbers = 1 << 24;
constexpr uint8_t kHopsMax = 64;

Status CannotMake(const VerbsDevice& device, const char* what) {
  const int error = errno;
  return Status::IOError(fmt::format("RDMA device {} gives no {}: {}{}", device.name(), what,
                                     port::ErrorText(error),
                                     error == ENOMEM ? "; are too many queue pairs open?" : ""));
}

uint8_t Narrow(int value) { return static_cast<uint8_t>(value); }

}  // namespace

Status VerbsEndpoint::Create(std::shared_ptr<const VerbsDomain> domain, Role role,
                             std::unique_ptr<VerbsEndpoint>* endpoint, uint32_t receives) {
  std::unique_ptr<VerbsEndpoint> made(new VerbsEndpoint(std::move(domain), role));
  made->receives_ = receives;
  const VerbsDevice& device = made->domain_->device();
  DLSM_RETURN_IF_ERROR(device.events().device());
  const auto most = static_cast<uint32_t>(std::max(device.attributes().max_qp_wr, 2));
  auto most_completions = static_cast<uint32_t>(std::max(device.attributes().max_cqe, 2));
  uint32_t wished = device.options().send_queue_depth;
  if (role == Role::kServer) wished = 1;  // It posts nothing.
  if (role == Role::kPeer) {
    wished = std::max(wished, kPeerDepthMin);
    most_completions = std::max(most_completions, receives + 1) - receives;
  }
  made->depth_ = std::min({wished, most, most_completions});
  DLSM_RETURN_IF_ERROR(made->MakeCompletions());
  DLSM_RETURN_IF_ERROR(made->MakeQueuePair());
  made->health_ = device.events().Enroll(made->queue_pair_.get(), made->completions_.get());
  *endpoint = std::move(made);
  return Status::OK();
}

VerbsEndpoint::~VerbsEndpoint() {
  if (queue_pair_ != nullptr) LeaveEvents();
}

void VerbsEndpoint::LeaveEvents() {
  if (health_ != nullptr) health_->Forget();
  domain_->device().events().Leave(queue_pair_.get());
}

Status VerbsEndpoint::MakeCompletions() {
  const VerbsDevice& device = domain_->device();
  const VerbsLibrary& library = domain_->library();
  if (role_ != Role::kServer) {
    OccupyStandardDescriptors();
    events_ = {library.create_comp_channel(device.context()), library.destroy_comp_channel};
    if (events_ == nullptr) return CannotMake(device, "completion channel");
    const int flags = ::fcntl(events_->fd, F_GETFL);
    if (flags < 0 || ::fcntl(events_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
      return CannotMake(device, "completion channel that does not block");
    }
  }
  // Room for all that can be under way, because after a failure each of it completes.
  const uint32_t completions = role_ == Role::kPeer ? depth_ + receives_ : depth_;
  completions_ = {
      library.create_cq(device.context(), static_cast<int>(completions), nullptr, events_.get(), 0),
      library.destroy_cq};
  return completions_ != nullptr ? Status::OK() : CannotMake(device, "completion queue");
}

Status VerbsEndpoint::MakeQueuePair() {
  const VerbsDevice& device = domain_->device();
  uint32_t inline_bytes = role_ == Role::kServer ? 0 : device.options().inline_bytes;
  while (true) {
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = completions_.get();
    attributes.cap.max_send_wr = depth_;
    attributes.cap.max_recv_wr = receives_;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = inline_bytes;
    queue_pair_ = {domain_->library().create_qp(domain_->get(), &attributes),
                   domain_->library().destroy_qp};
    if (queue_pair_ != nullptr) {
      inline_bytes_ = attributes.cap.max_inline_data;
      return Status::OK();
    }
    // No device tells how much it takes: it is asked for less until it agrees.
    if (inline_bytes == 0) return CannotMake(device, "queue pair");
    inline_bytes /= 2;
  }
}

Status VerbsEndpoint::Describe(const std::optional<VerbsEnd>& peer,
                               const std::optional<VerbsGid>& address, VerbsEnd* own) {
  const VerbsDevice& device = domain_->device();
  ibv_port_attr port;
  DLSM_RETURN_IF_ERROR(device.QueryPort(&port));
  if (port.state != IBV_PORT_ACTIVE) {
    return Status::IOError(
        fmt::format("port {} of RDMA device {} is not active; check its cable, switch and network "
                    "interface",
                    device.port(), device.name()));
  }
  std::optional<GidEntry> peer_gid;
  if (peer.has_value()) peer_gid = GidEntry{0, peer->gid_type, 0, peer->gid};
  GidEntry gid;
  DLSM_RETURN_IF_ERROR(device.FindGid(peer_gid, address, &gid));
  gid_index_ = gid.index;
  std::optional<uint8_t> peer_reads;
  if (peer.has_value()) peer_reads = peer->reads_at_once;
  own_.queue_pair = queue_pair_->qp_num;
  own_.first_packet = std::random_device{}() % kPacketNumbers;
  own_.lid = port.lid;
  own_.mtu = OwnMtu(port);
  own_.gid_type = gid.type;
  own_.reads_at_once = OwnReads(peer_reads);
  own_.atomics = device.has_atomics();
  own_.gid = gid.gid;
  device.events().SetAddress(queue_pair_.get(), VerbsOwnAddress{gid.index, gid.gid, port.lid});
  *own = own_;
  return Status::OK();
}

uint8_t VerbsEndpoint::OwnMtu(const ibv_port_attr& port) const {
  const int wished = domain_->device().options().mtu_bytes;
  return static_cast<uint8_t>(wished == 0 ? port.active_mtu
                                          : std::min(port.active_mtu, MtuOfBytes(wished)));
}

uint8_t VerbsEndpoint::OwnReads(std::optional<uint8_t> peer) const {
  const VerbsDevice& device = domain_->device();
  const ibv_device_attr& attributes = device.attributes();
  const auto wished = static_cast<int>(device.options().reads_at_once);
  int reads = role_ == Role::kClient
                  ? std::min(wished, attributes.max_qp_init_rd_atom)
                  : std::min(static_cast<int>(peer.value_or(255)), attributes.max_qp_rd_atom);
  if (role_ == Role::kPeer) reads = std::min({reads, wished, attributes.max_qp_init_rd_atom});
  return Narrow(std::clamp(reads, 1, 255));
}

// Not every device takes 0.
uint8_t VerbsEndpoint::Answers(uint8_t reads) const { return role_ == Role::kClient ? 1 : reads; }

Status VerbsEndpoint::Connect(const VerbsEnd& peer) {
  peer_has_atomics_ = peer.atomics;
  DLSM_RETURN_IF_ERROR(Initialise());
  DLSM_RETURN_IF_ERROR(ReadyToReceive(peer));
  // The server's end only answers.
  return role_ == Role::kServer ? Status::OK() : ReadyToSend(peer);
}

unsigned VerbsEndpoint::AccessFlags() const {
  unsigned flags = 0;
  // What reads bring is written under a key of this end there.
  if (domain_->device().is_iwarp()) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (role_ == Role::kClient) return flags;
  flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  return own_.atomics ? flags | IBV_ACCESS_REMOTE_ATOMIC : flags;
}

Status VerbsEndpoint::Initialise() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = domain_->device().port();
  attributes.qp_access_flags = AccessFlags();
  return Modify(&attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "initialise");
}

Status VerbsEndpoint::ReadyToReceive(const VerbsEnd& peer) {
  const VerbsDevice& device = domain_->device();
  ibv_port_attr port;
  DLSM_RETURN_IF_ERROR(device.QueryPort(&port));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(own_.mtu, peer.mtu));
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = Answers(own_.reads_at_once);
  attributes.min_rnr_timer = Narrow(device.options().rnr_timer);
  ibv_ah_attr& path = attributes.ah_attr;
  path.port_num = device.port();
  path.sl = Narrow(device.options().service_level);
  path.dlid = peer.lid;
  // On Ethernet the GID is the address. On InfiniBand the LID is, and the GID is needed only where
  // a router lies between, which shows in another subnet prefix: the GID's first half.
  const bool routed = !std::equal(own_.gid.begin(), own_.gid.begin() + 8, peer.gid.begin());
  const bool ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (ethernet || routed || (port.flags & IBV_QPF_GRH_REQUIRED) != 0) {
    path.is_global = 1;
    std::memcpy(path.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    path.grh.sgid_index = static_cast<uint8_t>(gid_index_);
    path.grh.hop_limit = kHopsMax;
    path.grh.traffic_class = Narrow(device.options().traffic_class);
  }
  return Modify(&attributes,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "reach its peer's");
}

Status VerbsEndpoint::ReadyToSend(const VerbsEnd& peer) {
  const VerbsOptions& options = domain_->device().options();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = Narrow(options.ack_timeout);
  attributes.retry_cnt = Narrow(options.retries);
  attributes.rnr_retry = Narrow(options.rnr_retries);
  attributes.sq_psn = own_.first_packet;
  attributes.max_rd_atomic = std::min(own_.reads_at_once, peer.reads_at_once);
  return Modify(&attributes,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "send");
}

Status VerbsEndpoint::Modify(ibv_qp_attr* attributes, int mask, const char* what) {
  const int error = domain_->library().modify_qp(queue_pair_.get(), attributes, mask);
  initialised_ = initialised_ || error == 0;
  if (error == 0) return Status::OK();
  const VerbsDevice& device = domain_->device();
  return Status::IOError(fmt::format(
      "RDMA device {} port {} does not let a queue pair {}: {}; are both ends on one network, and "
      "is GID index {} the right one?",
      device.name(), device.port(), what, port::ErrorText(error), gid_index_));
}

void VerbsEndpoint::Fail() {
  if (!initialised_) return;  // It has never been able to do anything.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  const int error = domain_->library().modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE);
  if (error == 0) return;
  IfMemoryPermits(
      [error] { Log().Error("a queue pair cannot be stopped: {}", port::ErrorText(error)); });
}

// Neither the error state nor a reset is enough: a software device may still be copying a packet
// when it has answered that, and waits for it only when the queue pair is destroyed.
bool VerbsEndpoint::Stop() { return DestroyQueuePair(); }

bool VerbsEndpoint::DestroyQueuePair() {
  if (queue_pair_ == nullptr) return true;
  LeaveEvents();
  const int error = domain_->library().destroy_qp(queue_pair_.get());
  if (error == 0) {
    static_cast<void>(queue_pair_.release());
    return true;
  }
  IfMemoryPermits([this, error] {
    port::AllocationPoint("not destroyed");
    Log().Error("RDMA device {} does not destroy a queue pair: {}", domain_->device().name(),
                port::ErrorText(error));
  });
  return false;
}

}  // namespace dlsm
