// Replies, and what else is written to a client.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "util/out_of_memory.h"
#include "util/rpc/verbs/verbs_rpc_server_transport.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What a client can make this process keep of replies that it does not fetch.
constexpr size_t kParkedBytesMax = 2 * kFrameBytesMax;
constexpr size_t kInlineBytesMax = 512;

}  // namespace

// Whose answer there is no memory for hears of it by the end of the connection.
void VerbsServerTransport::Reply(const RequestHead& head, const FrameHeader& request,
                                 const Status& status, const std::string& reply) noexcept {
  try {
    MakeReply(head, request, status, reply);
  } catch (const std::bad_alloc&) {
    const port::MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = OutOfNodeMemory();
    context_.wake_up();
  }
}

void VerbsServerTransport::MakeReply(const RequestHead& head, const FrameHeader& request,
                                     const Status& status, const std::string& reply) {
  std::string frame;
  Status made = MakeFrame(FrameType::kReply, request.method, status.code(), request.call,
                          status.ok() ? Slice(reply) : status.message(), &frame);
  if (!made.ok()) {
    // An error's message always fits.
    made = MakeFrame(FrameType::kReply, request.method, made.code(), request.call, made.message(),
                     &frame);
  }
  Write write;
  write.to = RpcRemote{head.place_address, head.place_key};
  write.call = request.call;
  if (head.immediate) write.immediate = head.slot;
  const port::MutexLock lock(mutex_);
  --calls_;
  if (link_ == nullptr || !failure_.ok()) return;
  if (SegmentsOf(frame.size()) <= head.place_segments) {
    write.frame = std::move(frame);
  } else {
    write.kind = RingKind::kTooLarge;
    write.frame = frame.substr(0, kFrameHeaderBytes);
    parked_bytes_ += frame.size();
    Parked& parked = parked_[head.slot];
    parked_bytes_ -= parked.frame.size();
    parked = Parked{request.call, std::move(frame)};
    if (parked_bytes_ > kParkedBytesMax) {
      failure_ = Status::Busy("the client does not take its replies");
      context_.wake_up();
      return;
    }
  }
  Send(std::move(write));
}

Status VerbsServerTransport::SendParked(const RequestMessage& message) {
  const port::MutexLock lock(mutex_);
  const auto found = parked_.find(message.head.slot);
  if (found == parked_.end() || found->second.call != message.frame.call) {
    return Status::Corruption("the client asked for a reply that is not kept");
  }
  if (SegmentsOf(found->second.frame.size()) > message.head.place_segments) {
    return Status::Corruption("the client asked for a reply with too small a place again");
  }
  Write write;
  write.to = RpcRemote{message.head.place_address, message.head.place_key};
  write.call = message.frame.call;
  if (message.head.immediate) write.immediate = message.head.slot;
  write.frame = std::move(found->second.frame);
  parked_bytes_ -= write.frame.size();
  parked_.erase(found);
  Send(std::move(write));
  return failure_;
}

void VerbsServerTransport::Send(Write write) {
  bool sent = false;
  Status status;
  if (waiting_.empty()) status = TrySend(write, &sent);
  if (!status.ok()) failure_ = status;
  if (status.ok() && sent) return;
  if (!sent) {
    waiting_bytes_ += write.frame.size();
    waiting_.push_back(std::move(write));
    if (waiting_bytes_ > kParkedBytesMax) {
      failure_ = Status::Busy("the client does not take its replies");
    }
  }
  context_.wake_up();
}

Status VerbsServerTransport::SendWaiting() {
  while (!waiting_.empty()) {
    bool sent = false;
    DLSM_RETURN_IF_ERROR(TrySend(waiting_.front(), &sent));
    if (!sent) return Status::OK();
    waiting_bytes_ -= waiting_.front().frame.size();
    waiting_.pop_front();
  }
  return Status::OK();
}

Status VerbsServerTransport::TrySend(const Write& write, bool* sent) {
  const size_t bytes = SegmentsOf(write.frame.size()) * kSegmentBytes;
  *sent = false;
  if (!link_->HasRoom(link_->PartsOf(bytes))) return Status::OK();
  const auto build = [&](char* to) {
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): bytes, no text.
    std::memcpy(to + kRingWordBytes, write.frame.data(), write.frame.size());
    FrameRingMessage(write.kind, write.frame.size(), RendezvousWord(offer_.salt, write.call), to);
  };
  if (bytes <= std::min<size_t>(link_->endpoint().inline_bytes(), kInlineBytesMax)) {
    char message[kInlineBytesMax];
    build(message);
    *sent = true;
    return PostWrite(message, bytes, 0, write, {});
  }
  if (bytes <= kStagingBytes) {
    if (free_stagings_.empty()) return Status::OK();
    char* const staging = free_stagings_.back();
    free_stagings_.pop_back();
    build(staging);
    *sent = true;
    return PostWrite(staging, bytes, own_memory_->registration->lkey, write, [this, staging] {
      mutex_.AssertHeld();
      free_stagings_.push_back(staging);
    });
  }
  std::shared_ptr<RpcMemory> memory;
  DLSM_RETURN_IF_ERROR(pool_.Take(link_->domain(), bytes, &memory));
  build(memory->data());
  *sent = true;
  return PostWrite(memory->data(), bytes, memory->registration->lkey, write, [memory] {});
}

// The end of a message goes last, whatever its parts: a queue pair writes in order.
Status VerbsServerTransport::PostWrite(char* from, size_t bytes, uint32_t local_key,
                                       const Write& write, VerbsRpcLink::Done done) {
  const uint64_t part_max = link_->message_bytes_max();
  const size_t parts = link_->PartsOf(bytes);
  std::vector<ibv_send_wr> chain(parts);
  std::vector<ibv_sge> pieces(parts);
  for (size_t i = 0; i < parts; ++i) {
    const uint64_t offset = i * part_max;
    pieces[i] =
        ibv_sge{reinterpret_cast<uintptr_t>(from) + offset,
                static_cast<uint32_t>(std::min<uint64_t>(part_max, bytes - offset)), local_key};
    ibv_send_wr& request = chain[i];
    request.sg_list = &pieces[i];
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = local_key == 0 ? IBV_SEND_INLINE : 0;
    request.wr.rdma.remote_addr = write.to.address + offset;
    request.wr.rdma.rkey = write.to.key;
  }
  if (write.immediate.has_value()) {
    chain.back().opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    chain.back().imm_data = htobe32(*write.immediate);
    chain.back().send_flags |= IBV_SEND_SOLICITED;
  }
  return link_->Post(chain.data(), parts, std::move(done));
}

Status VerbsServerTransport::TellAwake() {
  if (!untold_ || !link_->HasRoom(1)) return Status::OK();
  untold_ = false;
  return TellState({});
}

Status VerbsServerTransport::TellState(VerbsRpcLink::Done done) {
  const uint64_t state = sleep_.state();
  std::memcpy(state_, &state, sizeof(state));
  const bool inlined = link_->endpoint().inline_bytes() >= sizeof(state);
  ibv_sge piece{reinterpret_cast<uintptr_t>(state_), sizeof(state),
                own_memory_->registration->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = inlined ? IBV_SEND_INLINE : 0;
  request.wr.rdma.remote_addr = offer_.state_address;
  request.wr.rdma.rkey = offer_.state_key;
  return link_->Post(&request, 1, std::move(done));
}

}  // namespace dlsm
