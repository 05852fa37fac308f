#include "util/rpc/verbs_rpc_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "port/cpu.h"
#include "util/checksum.h"
#include "util/fabric/verbs_socket.h"
#include "util/log.h"
#include "util/rpc/frame.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The state's segment, then the reply ring.
constexpr size_t kReplySegments = 4096;
// What a reply usually takes; a larger one costs another round trip.
constexpr size_t kPlaceSegments = 8;
constexpr size_t kLongPlaceSegments = 64;
static_assert(kReplySegments >= kRpcSlots * kLongPlaceSegments);
// A client takes at most one immediate for each slot at a time, but may be slow to post the
// receives again.
constexpr uint32_t kReceives = 2 * kRpcSlots;
// Work requests of one call: a reset, the request.
constexpr size_t kRequestsPerCall = 2;
// With so many slots held by calls that were given up, the channel fails.
constexpr size_t kHeldMax = kRpcSlots * 3 / 4;

constexpr microseconds kRingSpin{100};
// ring: the first nap, doubled up to the last. The last one bounds what is lost when the memory
// node goes to sleep at the moment in which a request is on its way.
constexpr microseconds kNapMin{50};
constexpr milliseconds kNapMax{1};
constexpr milliseconds kLongNapMax{20};

// What takes long by nature, and answers at length.
bool IsLong(Method method) { return method == Method::kMerge; }
bool HasLongReply(Method method) {
  return method == Method::kMerge || method == Method::kOpenDatabase;
}

timespec ToTimespec(nanoseconds duration) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  timespec made{};
  made.tv_sec = duration.count() / kPerSecond;
  made.tv_nsec = duration.count() % kPerSecond;
  return made;
}

uint64_t DrawSalt() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Status VerbsRpcChannel::Open(const RpcTransportOptions& options, Socket socket,
                             const std::string& where, Deadline deadline,
                             std::shared_ptr<VerbsRpcChannel>* channel) {
  std::shared_ptr<VerbsRpcChannel> made(
      new VerbsRpcChannel(options.kind, std::move(socket), where));
  DLSM_RETURN_IF_ERROR(made->Arrange(options.verbs, deadline));
  *channel = std::move(made);
  return Status::OK();
}

VerbsRpcChannel::VerbsRpcChannel(RpcTransport transport, Socket socket, std::string where)
    : ring_(transport == RpcTransport::kRing),
      transport_(transport),
      where_(std::move(where)),
      salt_(DrawSalt()),
      socket_(std::move(socket)),
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
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(VerbsRpcLink::Create(std::move(device), kReceives, &link_));
  DLSM_RETURN_IF_ERROR(RpcMemory::Make(link_->domain(), (1 + kReplySegments) * kSegmentBytes,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                       &reply_memory_));
  state_ = reply_memory_->data();
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
  if (!events_.valid()) return Status::IOError("no event descriptor", ErrorText(errno));
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
  DLSM_RETURN_IF_ERROR(SendAll(socket_.get(), frame, deadline));
  FrameAssembler assembler;
  while (!assembler.complete()) {
    size_t bytes = 0;
    char* const to = assembler.Space(&bytes);
    DLSM_RETURN_IF_ERROR(ReceiveAll(socket_.get(), to, bytes, deadline));
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
  Status status = TakeSlot(method, deadline, &slot);
  if (status.ok()) {
    status = CallInSlot(frame, request, reply, deadline, slot);
    LetGo(slot);
  }
  PassWatchOn();
  return status;
}

Status VerbsRpcChannel::CallInSlot(FrameHeader frame, const Slice& request, std::string* reply,
                                   Deadline deadline, Slot* slot) {
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
  const Status status = TakeReply(message, frame.call, reply);
  mutex_.Lock();
  return status;
}

Status VerbsRpcChannel::TryTakeSlot(Method method, Slot** taken) {
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

Status VerbsRpcChannel::AwaitReply(Deadline deadline, Slot* slot, RingMessage* message) {
  if (ring_ && !slot->immediate) Spin(*slot, deadline);
  nanoseconds nap_max = std::chrono::hours(1);
  if (ring_) nap_max = slot->immediate ? kLongNapMax : kNapMax;
  nanoseconds nap = ring_ ? kNapMin : nap_max;
  while (true) {
    DLSM_RETURN_IF_ERROR(failure_);
    if (Look(*slot, message)) {
      Replied(slot);
      return Status::OK();
    }
    if (deadline.Passed()) {
      return Status::TimedOut(fmt::format(
          "memory node {} did not answer in time; it may be overloaded or unreachable", where_));
    }
    if (ring_) WakeServer();
    DLSM_RETURN_IF_ERROR(failure_);
    Sleep(slot, deadline, nap);
    nap = std::min(2 * nap, nap_max);
  }
}

bool VerbsRpcChannel::Look(const Slot& slot, RingMessage* message) const {
  return LookAtMessage(slot.place, slot.place_segments, RendezvousWord(salt_, slot.call), message);
}

void VerbsRpcChannel::Spin(const Slot& slot, Deadline deadline) {
  // Often enough for whom this thread may be keeping from the processor.
  constexpr int kYieldEvery = 16;
  const auto until = std::min(Deadline::Clock::now() + kRingSpin, deadline.time_point());
  PassWatchOn();
  RingWake wake = wake_;
  mutex_.Unlock();
  for (int i = 1;; ++i) {
    RingMessage message;
    if (Look(slot, &message)) break;
    if (wake.Needed(State())) {
      mutex_.Lock();
      if (failure_.ok()) WakeServer();
      wake = wake_;
      mutex_.Unlock();
    }
    if (i % kYieldEvery != 0) {
      port::CpuRelax();
      continue;
    }
    if (Deadline::Clock::now() >= until) break;
    std::this_thread::yield();
  }
  mutex_.Lock();
}

void VerbsRpcChannel::Sleep(Slot* slot, Deadline deadline, nanoseconds nap) {
  const auto until = nap < deadline.Remaining() ? Deadline::In(nap) : deadline;
  if (!watched_) {
    watched_ = true;
    Watch(until);
    watched_ = false;
  } else if (slot != nullptr) {
    slot->sleeping = true;
    slot->wakeup.WaitUntil(until.time_point());
    slot->sleeping = false;
  } else {
    ++slot_waiters_;
    slot_free_.WaitUntil(until.time_point());
    --slot_waiters_;
  }
}

// Armed first and polled again after that, so that no completion falls in between.
void VerbsRpcChannel::Watch(Deadline until) {
  bool progress = false;
  Poll(&progress);
  if (!failure_.ok() || progress) return;
  if (!armed_) {
    const Status status = link_->Arm(/*solicited=*/true);
    armed_ = true;
    if (!status.ok()) Fail(status);
    return;
  }
  link_->CountSleep();
  pollfd waited[2] = {{events_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  const timespec timeout = ToTimespec(until.Remaining());
  mutex_.Unlock();
  const int ready = ::ppoll(waited, 2, &timeout, nullptr);
  mutex_.Lock();
  if (!failure_.ok() || ready <= 0) return;
  if (waited[0].revents != 0) {
    link_->TakeEvent();
    armed_ = false;
  }
  if (waited[1].revents != 0 && LifeLineEnded()) Fail(Closed());
  if (failure_.ok()) Poll(&progress);
}

// A caller that stops watching leaves it to one that sleeps.
void VerbsRpcChannel::PassWatchOn() {
  if (watched_) return;
  for (Slot& slot : slots_) {
    if (!slot.sleeping) continue;
    slot.wakeup.Signal();
    return;
  }
  if (slot_waiters_ > 0) slot_free_.Signal();
}

void VerbsRpcChannel::Poll(bool* progress) {
  if (!failure_.ok()) return;
  received_.clear();
  Status status = link_->Poll(&received_, progress);
  for (const VerbsRpcLink::Received& each : received_) {
    if (status.ok()) status = link_->PostReceive(each.id, nullptr, 0, 0);
  }
  if (!status.ok()) return Fail(LifeLineEnded() ? Closed() : status);
  if (!*progress) return;
  // An immediate only says that it is time to look.
  for (Slot& slot : slots_) {
    RingMessage message;
    if (slot.sleeping && Look(slot, &message)) slot.wakeup.Signal();
  }
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
  std::string copy = payload.ToString();
  if (Crc32c(copy) != header.payload_checksum) {
    return Status::Corruption("frame payload has a wrong checksum");
  }
  if (header.code != Status::Code::kOk) return Status::FromCode(header.code, copy);
  *reply = std::move(copy);
  return Status::OK();
}

bool VerbsRpcChannel::LifeLineEnded() const {
  // Nothing is sent over it any more: any byte is as wrong as its end.
  char byte;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

Status VerbsRpcChannel::Closed() {
  // Of a queue pair that the device has reported as failed, this end has shut the line.
  DLSM_RETURN_IF_ERROR(link_->Health());
  return Status::IOError("it closed the connection; is Server still running there?");
}

// Without its queue pair nothing is written to this process any more: all places are free.
void VerbsRpcChannel::Fail(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = Status::IOError(
      fmt::format("connection to memory node {} failed: {}", where_, why.message().ToStringView()));
  Log().debug("{}", failure_.ToString());
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
