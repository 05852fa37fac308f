// How a channel comes into being: its device, its memory, and the conversation with the memory
// node.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "port/error_text.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/verbs/verbs_rpc_channel.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A client takes at most one immediate for each slot at a time, but may be slow to post the
// receives again.
constexpr uint32_t kReceives = 2 * kRpcSlots;

uint64_t DrawSalt() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Status VerbsRpcChannel::Open(const RpcTransportOptions& options, ControlStream control,
                             const std::string& where, Deadline deadline,
                             std::shared_ptr<VerbsRpcChannel>* channel) {
  std::shared_ptr<VerbsRpcChannel> made(
      new VerbsRpcChannel(options.kind, std::move(control), where));
  DLSM_RETURN_IF_ERROR(made->Arrange(options.verbs, deadline));
  *channel = std::move(made);
  return Status::OK();
}

VerbsRpcChannel::VerbsRpcChannel(RpcTransport transport, ControlStream control, std::string where)
    : ring_(transport == RpcTransport::kRing),
      transport_(transport),
      where_(std::move(where)),
      salt_(DrawSalt()),
      socket_(std::move(control.stream)),
      seals_(std::move(control.seals)),
      request_pool_(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
      reply_pool_(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
      places_(kReplySegments) {}

VerbsRpcChannel::~VerbsRpcChannel() {
  const port::MutexLock lock(mutex_);
  assert(std::all_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.state != Slot::State::kWaiting; }));
  link_.reset();
}

Status VerbsRpcChannel::Arrange(const VerbsOptions& options, Deadline deadline) {
  std::shared_ptr<const VerbsDevice> device;
  DLSM_RETURN_IF_ERROR(VerbsDevice::Open(options, &device));
  DLSM_RETURN_IF_ERROR(VerbsRpcLink::CheckDevice(*device));
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(VerbsRpcLink::Create(std::move(device), kReceives, &link_));
  DLSM_RETURN_IF_ERROR(RpcMemory::Make(link_->domain(), (1 + kReplySegments) * kSegmentBytes,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                       &reply_memory_));
  state_ = reply_memory_->data();
  std::memcpy(state_, &kFirstRingState, sizeof(kFirstRingState));
  TransportOffer offer;
  offer.transport = transport_;
  offer.salt = salt_;
  offer.state_address = reply_memory_->address();
  offer.state_key = reply_memory_->registration->rkey;
  DLSM_RETURN_IF_ERROR(link_->endpoint().Describe({}, SocketAddress(socket_.get()), &offer.end));
  TransportAnswer answer;
  DLSM_RETURN_IF_ERROR(Offer(offer, deadline, &answer));
  DLSM_RETURN_IF_ERROR(MakeMemory(answer));
  DLSM_RETURN_IF_ERROR(link_->endpoint().Connect(answer.end));
  for (uint32_t id = 0; id < kReceives; ++id) {
    DLSM_RETURN_IF_ERROR(link_->PostReceive(id, nullptr, 0, 0));
  }
  events_ = FileDescriptor(::fcntl(link_->events(), F_DUPFD_CLOEXEC, 0));
  if (!events_.valid()) return CannotOpen("an event", errno);
  // Wakes the caller that watches.
  link_->OnBreak([line = socket_.get()] { (void)::shutdown(line, SHUT_RD); });
  for (size_t i = 0; i < kRpcSlots; ++i) slots_.emplace_back(mutex_, static_cast<uint16_t>(i));
  return Status::OK();
}

Status VerbsRpcChannel::Offer(const TransportOffer& offer, Deadline deadline,
                              TransportAnswer* answer) {
  std::string frame;
  DLSM_RETURN_IF_ERROR(
      MakeFrame(FrameType::kRequest, kOpenTransport, Status::Code::kOk, 0, offer.Encode(), &frame));
  DLSM_RETURN_IF_ERROR(seals_.sent->Append(&frame));
  DLSM_RETURN_IF_ERROR(SendAll(socket_, frame, deadline));
  FrameAssembler assembler(seals_.received.get());
  while (!assembler.complete()) {
    size_t bytes = 0;
    char* const to = assembler.Space(&bytes);
    DLSM_RETURN_IF_ERROR(ReceiveAll(socket_, to, bytes, deadline));
    DLSM_RETURN_IF_ERROR(assembler.Filled(bytes));
  }
  const FrameHeader header = assembler.header();
  const std::string payload = assembler.TakePayload();
  if (header.type != FrameType::kReply || header.method != kOpenTransport) {
    return Status::Corruption("memory node " + where_ + " did not answer the offer of a transport");
  }
  if (header.code != Status::Code::kOk) {
    return Status::FromCode(header.code,
                            fmt::format("memory node {} does not answer calls over {}: {}", where_,
                                        RpcTransportName(transport_), payload));
  }
  DLSM_RETURN_IF_ERROR(answer->Decode(payload));
  if (ring_ == (answer->ring_segments == 0)) {
    return Status::Corruption("memory node " + where_ + " answered with another transport");
  }
  return Status::OK();
}

Status VerbsRpcChannel::MakeMemory(const TransportAnswer& answer) {
  request_bytes_max_ = answer.request_bytes_max;
  ring_remote_ = RpcRemote{answer.ring_address, answer.ring_key};
  if (!ring_) {
    return RpcMemory::Make(link_->domain(), kRpcSlots * request_bytes_max_, IBV_ACCESS_LOCAL_WRITE,
                           &own_memory_);
  }
  requests_.emplace(answer.ring_segments);
  if (requests_->segments_max() == 0) return Status::Corruption("its ring is too small");
  request_bytes_max_ = std::min(request_bytes_max_, BodyBytesMax(requests_->segments_max()));
  return RpcMemory::Make(link_->domain(), answer.ring_segments * kSegmentBytes,
                         IBV_ACCESS_LOCAL_WRITE, &own_memory_);
}

}  // namespace dlsm
