// Calls: slots, places for replies, requests, replies. The set-up is in verbs_rpc_channel_setup.cc,
// the waiting in verbs_rpc_channel_wait.cc.
#include "util/rpc/verbs/verbs_rpc_channel.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "util/checksum.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/auth/frame.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::nanoseconds;

// What a reply usually takes; a larger one costs another round trip.
constexpr size_t kPlaceSegments = 8;
constexpr size_t kLongPlaceSegments = 64;
// Work requests of one call: a reset, the request.
constexpr size_t kRequestsPerCall = 2;
// With so many slots held by calls that were given up, the channel fails.
constexpr size_t kHeldMax = kRpcSlots * 3 / 4;

// What takes long by nature, and answers at length.
bool IsLong(Method method) { return method == Method::kMerge; }
bool HasLongReply(Method method) {
  return method == Method::kMerge || method == Method::kOpenDatabase;
}

}  // namespace

bool VerbsRpcChannel::failed() {
  const port::MutexLock lock(mutex_);
  // With calls under way, one of them watches the life line.
  if (failure_.ok() && !watched_ && LifeLineEnded()) {
    Fail(Closed());
  }
  return !failure_.ok();
}

RpcCounts VerbsRpcChannel::counts() {
  const port::MutexLock lock(mutex_);
  return link_ != nullptr ? link_->counts() : last_counts_;
}

Status VerbsRpcChannel::Call(Method method, const Slice& request, std::string* reply,
                             Deadline deadline) {
  if (request.size() > kFramePayloadBytesMax) {
    return Status::InvalidArgument(fmt::format("message of {} bytes exceeds the limit of {}",
                                               request.size(), kFramePayloadBytesMax));
  }
  FrameHeader frame;
  frame.method = method;
  frame.payload_bytes = static_cast<uint32_t>(request.size());
  frame.payload_checksum = Crc32c(request);
  const port::MutexLock lock(mutex_);
  Slot* slot = nullptr;
  Status status;
  try {
    status = TakeSlot(method, deadline, &slot);
    if (status.ok()) status = CallInSlot(frame, request, reply, deadline, slot);
  } catch (const std::bad_alloc&) {
    // What the device was about to be given, or has told, may be in no book: nothing can follow it.
    Fail(OutOfWorkMemory());
    status = failure_;
  }
  if (slot != nullptr) LetGo(slot);
  PassWatchOn();
  return status;
}

Status VerbsRpcChannel::CallInSlot(FrameHeader frame, const Slice& request, std::string* reply,
                                   Deadline deadline, Slot* slot) {
  port::AllocationPoint("call");
  frame.call = slot->call;
  Outgoing outgoing{{}, frame, {}};
  if (kRequestHeadBytes + kFrameHeaderBytes + request.size() <= request_bytes_max_) {
    outgoing.payload = request;
  } else {
    outgoing.head.kind = RequestKind::kRemote;
    DLSM_RETURN_IF_ERROR(OfferPayload(request, slot));
  }
  RingMessage message;
  DLSM_RETURN_IF_ERROR(SendRequest(&outgoing, deadline, slot));
  DLSM_RETURN_IF_ERROR(AwaitReply(deadline, slot, &message));
  if (message.kind == RingKind::kTooLarge) {
    DLSM_RETURN_IF_ERROR(MakeLargerPlace(message, slot));
    frame.payload_bytes = frame.payload_checksum = 0;
    Outgoing fetch{{}, frame, {}};
    fetch.head.kind = RequestKind::kFetch;
    DLSM_RETURN_IF_ERROR(SendRequest(&fetch, deadline, slot));
    DLSM_RETURN_IF_ERROR(AwaitReply(deadline, slot, &message));
  }
  // The slot is this call's, and others need not wait for the copy.
  PassWatchOn();
  mutex_.Unlock();
  // Nothing is thrown without the mutex. The reply has come, so its slot is free for others.
  const Status status = WithinMemory([&] { return TakeReply(message, frame.call, reply); });
  mutex_.Lock();
  return status;
}

Status VerbsRpcChannel::TryTakeSlot(Method method, Slot** taken) {
  static_assert(kReplySegments >= kRpcSlots * kLongPlaceSegments);
  *taken = nullptr;
  bool progress = false;
  Poll(&progress);
  DLSM_RETURN_IF_ERROR(failure_);
  FreeHeld();
  size_t held = 0;
  for (Slot& slot : slots_) {
    if (slot.state == Slot::State::kHeld) ++held;
    if (slot.state != Slot::State::kFree) continue;
    const size_t segments = HasLongReply(method) ? kLongPlaceSegments : kPlaceSegments;
    if (!places_.Allocate(segments, &slot.ring_at)) return Status::OK();
    slot.state = Slot::State::kWaiting;
    slot.call = next_call_++;
    slot.immediate = !ring_ || IsLong(method);
    slot.replied = true;
    slot.ring_segments = segments;
    slot.place = reply_memory_->data() + (1 + slot.ring_at) * kSegmentBytes;
    slot.place_segments = segments;
    slot.place_key = reply_memory_->registration->rkey;
    ClearMessagePlace(slot.place);
    *taken = &slot;
    return Status::OK();
  }
  if (held >= kHeldMax) {
    Fail(Status::Busy(fmt::format("{} calls that were given up have not been answered", held)));
  }
  return failure_;
}

Status VerbsRpcChannel::TakeSlot(Method method, Deadline deadline, Slot** slot) {
  nanoseconds nap = kNapMin;
  while (true) {
    DLSM_RETURN_IF_ERROR(TryTakeSlot(method, slot));
    if (*slot != nullptr) return Status::OK();
    if (deadline.Passed()) return NoRoom();
    Sleep(nullptr, deadline, nap);
    nap = std::min<nanoseconds>(2 * nap, kNapMax);
  }
}

Status VerbsRpcChannel::NoRoom() const {
  return Status::TimedOut(fmt::format("memory node {} takes no more requests", where_));
}

// A slot whose reply has not come, or whose request's bytes the device may still read, is held.
void VerbsRpcChannel::LetGo(Slot* slot) {
  slot->state = Slot::State::kHeld;
  if (slot->replied && slot->sent) Free(slot);
}

void VerbsRpcChannel::FreeHeld() {
  for (Slot& slot : slots_) {
    if (slot.state != Slot::State::kHeld) continue;
    RingMessage message;
    if (!slot.replied && Look(slot, &message)) Replied(&slot);
    if (slot.replied && slot.sent) Free(&slot);
  }
}

void VerbsRpcChannel::Replied(Slot* slot) {
  slot->replied = true;
  consumed_ = std::max(consumed_, slot->request_number);
}

void VerbsRpcChannel::Free(Slot* slot) {
  places_.Free(slot->ring_at, slot->ring_segments);
  slot->large_request.reset();
  slot->large_reply.reset();
  slot->state = Slot::State::kFree;
  if (slot_waiters_ > 0) slot_free_.Signal();
}

Status VerbsRpcChannel::OfferPayload(const Slice& payload, Slot* slot) {
  std::shared_ptr<RpcMemory> memory;
  DLSM_RETURN_IF_ERROR(request_pool_.Take(link_->domain(), payload.size(), &memory));
  slot->large_request = std::move(memory);
  char* const to = slot->large_request->data();
  PassWatchOn();
  mutex_.Unlock();
  std::memcpy(to, payload.data(), payload.size());
  mutex_.Lock();
  return failure_;
}

Status VerbsRpcChannel::MakeLargerPlace(const RingMessage& message, Slot* slot) {
  FrameHeader header;
  DLSM_RETURN_IF_ERROR(header.Decode(message.body));
  std::shared_ptr<RpcMemory> memory;
  const size_t segments = SegmentsOf(kFrameHeaderBytes + header.payload_bytes);
  DLSM_RETURN_IF_ERROR(reply_pool_.Take(link_->domain(), segments * kSegmentBytes, &memory));
  slot->large_reply = std::move(memory);
  slot->place = slot->large_reply->data();
  slot->place_segments = segments;
  slot->place_key = slot->large_reply->registration->rkey;
  ClearMessagePlace(slot->place);
  return Status::OK();
}

void VerbsRpcChannel::Outgoing::BuildAt(char* to) const {
  head.EncodeTo(to);
  const std::string header = frame.Encode();
  std::memcpy(to + kRequestHeadBytes, header.data(), header.size());
  if (payload.empty()) return;
  std::memcpy(to + kRequestHeadBytes + kFrameHeaderBytes, payload.data(), payload.size());
}

Status VerbsRpcChannel::SendRequest(Outgoing* outgoing, Deadline deadline, Slot* slot) {
  RequestHead& head = outgoing->head;
  head.immediate = slot->immediate;
  head.slot = slot->index;
  head.place_address = reinterpret_cast<uintptr_t>(slot->place);
  head.place_key = slot->place_key;
  head.place_segments = static_cast<uint32_t>(slot->place_segments);
  if (head.kind == RequestKind::kRemote) {
    head.payload_address = slot->large_request->address();
    head.payload_key = slot->large_request->registration->rkey;
  }
  nanoseconds nap = kNapMin;
  while (true) {
    DLSM_RETURN_IF_ERROR(failure_);
    bool sent = false;
    const Status status =
        ring_ ? WriteToRing(*outgoing, slot, &sent) : SendMessage(*outgoing, slot, &sent);
    if (!status.ok()) {
      Fail(status);
      return failure_;
    }
    if (sent) {
      slot->replied = false;
      return Status::OK();
    }
    if (deadline.Passed()) return NoRoom();
    Sleep(nullptr, deadline, nap);
    nap = std::min<nanoseconds>(2 * nap, kNapMax);
  }
}

Status VerbsRpcChannel::SendMessage(const Outgoing& outgoing, Slot* slot, bool* sent) {
  if (!slot->sent || !link_->HasRoom(1)) return Status::OK();
  char* const from = own_memory_->data() + slot->index * request_bytes_max_;
  outgoing.BuildAt(from);
  ibv_sge piece{reinterpret_cast<uintptr_t>(from), static_cast<uint32_t>(outgoing.bytes()),
                own_memory_->registration->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SOLICITED;
  *sent = true;
  if (outgoing.bytes() <= link_->endpoint().inline_bytes()) {
    request.send_flags |= IBV_SEND_INLINE;
    return link_->Post(&request, 1, {});
  }
  slot->sent = false;
  return link_->Post(&request, 1, [this, slot] {
    mutex_.AssertHeld();
    slot->sent = true;
  });
}

Status VerbsRpcChannel::WriteToRing(const Outgoing& outgoing, Slot* slot, bool* sent) {
  const uint64_t needed = unsent_.empty() ? UINT64_MAX : unsent_.front();
  requests_->Release(std::min(consumed_, needed - 1));
  RingAllocator::Allocation allocation;
  if (!link_->HasRoom(kRequestsPerCall) ||
      !requests_->Allocate(SegmentsOf(outgoing.bytes()), &allocation)) {
    return Status::OK();
  }
  std::array<ibv_send_wr, kRequestsPerCall> chain{};
  std::array<ibv_sge, kRequestsPerCall> pieces{};
  size_t count = 0;
  const auto add = [&](size_t at, size_t segments) {
    mutex_.AssertHeld();
    const size_t bytes = segments * kSegmentBytes;
    pieces[count] = ibv_sge{own_memory_->address() + at * kSegmentBytes,
                            static_cast<uint32_t>(bytes), own_memory_->registration->lkey};
    ibv_send_wr& request = chain[count];
    request.sg_list = &pieces[count];
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = bytes <= link_->endpoint().inline_bytes() ? IBV_SEND_INLINE : 0;
    request.wr.rdma.remote_addr = ring_remote_.address + at * kSegmentBytes;
    request.wr.rdma.rkey = ring_remote_.key;
    ++count;
  };
  if (allocation.reset) {
    FrameRingMessage(RingKind::kReset, 0, RendezvousWord(salt_, allocation.number - 1),
                     own_memory_->data() + allocation.reset_at * kSegmentBytes);
    add(allocation.reset_at, 1);
  }
  char* const to = own_memory_->data() + allocation.at * kSegmentBytes;
  outgoing.BuildAt(to + kRingWordBytes);
  FrameRingMessage(RingKind::kMessage, outgoing.bytes(), RendezvousWord(salt_, allocation.number),
                   to);
  add(allocation.at, allocation.segments);
  ibv_send_wr& last = chain[count - 1];
  if (const uint64_t state = State(); wake_.Needed(state)) {
    last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    last.send_flags |= IBV_SEND_SOLICITED;
    wake_.Sent(state);
  }
  slot->request_number = allocation.number;
  *sent = true;
  if ((last.send_flags & IBV_SEND_INLINE) != 0) return link_->Post(chain.data(), count, {});
  unsent_.push_back(allocation.number);
  return link_->Post(chain.data(), count, [this] {
    mutex_.AssertHeld();
    unsent_.pop_front();
  });
}

// Pairs with the memory node's write.
uint64_t VerbsRpcChannel::State() const {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(state_))
      .load(std::memory_order_acquire);
}

void VerbsRpcChannel::WakeServer() {
  const uint64_t state = State();
  if (!wake_.Needed(state) || !link_->HasRoom(1)) return;
  wake_.Sent(state);
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SOLICITED;
  request.wr.rdma.remote_addr = ring_remote_.address;
  request.wr.rdma.rkey = ring_remote_.key;
  const Status status = link_->Post(&request, 1, {});
  if (!status.ok()) Fail(status);
}

Status VerbsRpcChannel::TakeReply(const RingMessage& message, uint64_t call,
                                  std::string* reply) const {
  FrameHeader header;
  const size_t header_bytes = std::min(message.body.size(), kFrameHeaderBytes);
  DLSM_RETURN_IF_ERROR(header.Decode(Slice(message.body.data(), header_bytes)));
  const Slice payload(message.body.data() + header_bytes, message.body.size() - header_bytes);
  if (header.type != FrameType::kReply || header.call != call ||
      header.payload_bytes != payload.size()) {
    return Status::Corruption("memory node " + where_ + " answered another call");
  }
  port::AllocationPoint("reply taken");
  std::string copy = payload.ToString();
  if (Crc32c(copy) != header.payload_checksum) {
    return Status::Corruption("frame payload has a wrong checksum");
  }
  if (header.code != Status::Code::kOk) return Status::FromCode(header.code, copy);
  *reply = std::move(copy);
  return Status::OK();
}

Status VerbsRpcChannel::Closed() {
  // Of a queue pair that the device has reported as failed, this end has shut the line.
  DLSM_RETURN_IF_ERROR(link_->Health());
  return Status::IOError("it closed the connection; is Server still running there?");
}

// Without its queue pair nothing is written to this process any more: all places are free.
void VerbsRpcChannel::Fail(const Status& why) {
  if (!failure_.ok()) return why.PermitUncheckedError();  // The first one counts.
  failure_ = WithinMemory([&] {
    return Status::IOError(fmt::format("connection to memory node {} failed: {}", where_,
                                       why.message().ToStringView()));
  });
  Log().Debug("{}", failure_.message().ToStringView());
  last_counts_ = link_->counts();
  link_.reset();
  socket_.Shutdown();  // Wakes the caller that watches.
  for (Slot& slot : slots_) {
    slot.replied = slot.sent = true;
    if (slot.state == Slot::State::kHeld) Free(&slot);
    slot.wakeup.Signal();
  }
  slot_free_.SignalAll();
}

}  // namespace dlsm
