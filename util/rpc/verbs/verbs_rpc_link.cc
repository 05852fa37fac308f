#include "util/rpc/verbs/verbs_rpc_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "port/error_text.h"
#include "util/rpc/verbs/rpc_ring.h"
#include "util/rpc/verbs/transport_messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint64_t kReceiveFlag = uint64_t{1} << 63;  // Of a work request's id.
constexpr int kCompletionsPerPoll = 16;
// Of work requests whose memory nobody waits for, every so many asks for a completion, or each
// quarter of the send queue, if that is less: they hold its room until one has come.
constexpr uint32_t kSignalEvery = 16;
constexpr uint32_t kSignalsPerQueue = 4;
constexpr uint64_t kLargestMessage = kReplySegmentsMax * kSegmentBytes;
constexpr size_t kPoolBufferBytesMin = size_t{64} << 10;
constexpr size_t kPoolBytesMax = size_t{16} << 20;

uint64_t MessageBytesMax(const VerbsDevice& device, uint32_t depth) {
  constexpr uint64_t kPage = 4096;
  ibv_port_attr port;
  uint64_t most = uint64_t{1} << 20;  // Every device can do that.
  if (device.QueryPort(&port).ok() && port.max_msg_sz > 0) most = port.max_msg_sz;
  const uint64_t wished = device.options().message_bytes_max;
  if (wished == 0) return most;
  const uint64_t least = kLargestMessage / std::max<uint32_t>(depth / 2, 1);
  return std::min(most, std::max(wished, (least / kPage + 1) * kPage));
}

}  // namespace

Status RpcMemory::Make(std::shared_ptr<const VerbsDomain> domain, size_t bytes, int access,
                       std::shared_ptr<RpcMemory>* made) {
  auto memory = std::make_shared<RpcMemory>();
  DLSM_RETURN_IF_ERROR(MemoryMapping::Anonymous(bytes, &memory->memory));
  KeepFromChildren(memory->memory);
  DLSM_RETURN_IF_ERROR(
      domain->Register(memory->memory.data(), bytes, access, &memory->registration));
  memory->domain = std::move(domain);
  *made = std::move(memory);
  return Status::OK();
}

Status RpcMemoryPool::Take(const std::shared_ptr<const VerbsDomain>& domain, size_t bytes,
                           std::shared_ptr<RpcMemory>* taken) {
  size_t idle_bytes = 0;
  for (const auto& each : pool_) {
    if (each.use_count() > 1) continue;
    if (each->bytes() >= bytes) {
      *taken = each;
      return Status::OK();
    }
    idle_bytes += each->bytes();
  }
  if (idle_bytes > kPoolBytesMax) {
    std::erase_if(pool_, [](const auto& each) { return each.use_count() == 1; });
  }
  const size_t rounded = std::bit_ceil(std::max(bytes, kPoolBufferBytesMin));
  DLSM_RETURN_IF_ERROR(RpcMemory::Make(domain, rounded, access_, taken));
  if (rounded <= kPoolBytesMax) pool_.push_back(*taken);
  return Status::OK();
}

Status VerbsRpcLink::CheckDevice(const VerbsDevice& device) {
  if (device.has_immediates()) return Status::OK();
  return Status::NotSupported(
      fmt::format("RDMA device {} is iWARP, which has no writes with an immediate; calls can only "
                  "go over tcp (rpc_transport=tcp)",
                  device.name()));
}

Status VerbsRpcLink::Create(std::shared_ptr<const VerbsDevice> device, uint32_t receives,
                            std::unique_ptr<VerbsRpcLink>* link) {
  std::shared_ptr<const VerbsDomain> domain;
  std::unique_ptr<VerbsEndpoint> endpoint;
  DLSM_RETURN_IF_ERROR(VerbsDomain::Create(std::move(device), &domain));
  DLSM_RETURN_IF_ERROR(
      VerbsEndpoint::Create(domain, VerbsEndpoint::Role::kPeer, &endpoint, receives));
  std::unique_ptr<VerbsRpcLink> made(new VerbsRpcLink(std::move(domain), std::move(endpoint)));
  const uint32_t depth = made->endpoint_->depth();
  // What is not reported may stay in the send queue for as long as nothing follows.
  if (made->PartsOf(kLargestMessage) + made->signal_every_ - 1 > depth) {
    return Status::NotSupported(fmt::format(
        "RDMA device {} takes {} work requests of {} bytes at once, too little for calls; use "
        "rpc_transport=tcp",
        made->domain_->device().name(), depth, made->message_bytes_max_));
  }
  *link = std::move(made);
  return Status::OK();
}

VerbsRpcLink::VerbsRpcLink(std::shared_ptr<const VerbsDomain> domain,
                           std::unique_ptr<VerbsEndpoint> endpoint)
    : domain_(std::move(domain)),
      endpoint_(std::move(endpoint)),
      message_bytes_max_(MessageBytesMax(domain_->device(), endpoint_->depth())),
      signal_every_(std::clamp(endpoint_->depth() / kSignalsPerQueue, 1u, kSignalEvery)) {}

Status VerbsRpcLink::Post(ibv_send_wr* chain, size_t count, Done done) {
  assert(HasRoom(count));
  for (size_t i = 0; i < count; ++i) {
    chain[i].wr_id = retired_ + flights_.size() + 1;
    chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
    flights_.emplace_back();
  }
  unsignaled_ += static_cast<uint32_t>(count);
  if (done || unsignaled_ >= signal_every_) {
    chain[count - 1].send_flags |= IBV_SEND_SIGNALED;
    unsignaled_ = 0;
  }
  flights_.back() = std::move(done);
  work_requests_.fetch_add(count, std::memory_order_relaxed);
  doorbells_.fetch_add(1, std::memory_order_relaxed);
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(endpoint_->queue_pair(), chain, &refused);
  if (error == 0) return Status::OK();
  return Status::IOError(fmt::format("RDMA device {} does not take a work request: {}",
                                     domain_->device().name(), port::ErrorText(error)));
}

Status VerbsRpcLink::PostReceive(uint32_t id, char* data, size_t bytes, uint32_t key) {
  ibv_sge part{reinterpret_cast<uintptr_t>(data), static_cast<uint32_t>(bytes), key};
  ibv_recv_wr request{};
  request.wr_id = kReceiveFlag | id;
  request.sg_list = bytes > 0 ? &part : nullptr;
  request.num_sge = bytes > 0 ? 1 : 0;
  work_requests_.fetch_add(1, std::memory_order_relaxed);
  doorbells_.fetch_add(1, std::memory_order_relaxed);
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(endpoint_->queue_pair(), &request, &refused);
  if (error == 0) return Status::OK();
  return Status::IOError(fmt::format("RDMA device {} does not take a receive buffer: {}",
                                     domain_->device().name(), port::ErrorText(error)));
}

Status VerbsRpcLink::Poll(std::vector<Received>* received, bool* progress) {
  DLSM_RETURN_IF_ERROR(Health());
  std::array<ibv_wc, kCompletionsPerPoll> completions;
  const int count = ibv_poll_cq(endpoint_->completions(), kCompletionsPerPoll, completions.data());
  if (count < 0) {
    return Status::IOError(
        fmt::format("the completion queue of RDMA device {} is broken", domain_->device().name()));
  }
  *progress = count > 0;
  completions_.fetch_add(static_cast<uint64_t>(count), std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[static_cast<size_t>(i)];
    if (completion.status != IBV_WC_SUCCESS) return Failed(completion);
    if ((completion.wr_id & kReceiveFlag) != 0) {
      const bool written = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
      const bool immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
      received->push_back(Received{static_cast<uint32_t>(completion.wr_id),
                                   written ? 0 : completion.byte_len, immediate,
                                   immediate ? be32toh(completion.imm_data) : 0});
      continue;
    }
    while (retired_ < completion.wr_id) {
      const Done done = std::move(flights_.front());
      flights_.pop_front();
      ++retired_;
      if (done) done();
    }
  }
  return Status::OK();
}

Status VerbsRpcLink::Health() const {
  const VerbsHealth& health = endpoint_->health();
  return health.broken() ? health.why() : Status::OK();
}

Status VerbsRpcLink::Failed(const ibv_wc& completion) const {
  DLSM_RETURN_IF_ERROR(Health());
  return Status::IOError(fmt::format("its queue pair failed: {} (vendor error {:#x})",
                                     domain_->library().wc_status_str(completion.status),
                                     completion.vendor_err));
}

Status VerbsRpcLink::Arm(bool solicited) {
  const int error = ibv_req_notify_cq(endpoint_->completions(), solicited ? 1 : 0);
  if (error == 0) return Status::OK();
  return Status::IOError(fmt::format("RDMA device {} does not report completions: {}",
                                     domain_->device().name(), port::ErrorText(error)));
}

void VerbsRpcLink::TakeEvent() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (domain_->library().get_cq_event(endpoint_->events(), &queue, &context) == 0) {
    domain_->library().ack_cq_events(queue, 1);
  }
}

RpcCounts VerbsRpcLink::counts() const {
  return RpcCounts{
      work_requests_.load(std::memory_order_relaxed), doorbells_.load(std::memory_order_relaxed),
      completions_.load(std::memory_order_relaxed), sleeps_.load(std::memory_order_relaxed)};
}

}  // namespace dlsm
