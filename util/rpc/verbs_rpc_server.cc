#include "util/rpc/verbs_rpc_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "port/mutex.h"
#include "util/checksum.h"
#include "util/deadline.h"
#include "util/fabric/verbs_socket.h"
#include "util/log.h"
#include "util/rpc/ring_sleep.h"
#include "util/rpc/rpc_ring.h"
#include "util/rpc/transport_messages.h"
#include "util/rpc/verbs_rpc_link.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

// verbs: a client has at most kRpcSlots requests under way; a further one may come while the buffer
// of an answered one is not posted again yet.
constexpr uint32_t kReceives = kRpcSlots + kRpcSlots / 2;
constexpr uint32_t kReceiveBytes = 2048;
// ring: these take only the immediates that wake the thread.
constexpr uint32_t kWakeReceives = 16;
constexpr size_t kRingSegments = 2048;
constexpr uint32_t kRingRequestBytes = 16 << 10;

// Replies up to this size have registered memory at hand.
constexpr size_t kStagingBytes = 8 << 10;
constexpr size_t kStagings = 16;

// What a client can make this process keep: replies that it does not fetch, requests to be read out
// of its memory, calls without an answer.
constexpr size_t kParkedBytesMax = 2 * kFrameBytesMax;
constexpr size_t kReadBytesMax = 2 * kFrameBytesMax;
constexpr size_t kCallsMax = 1024;

constexpr size_t kInlineBytesMax = 512;

class VerbsServerTransport : public ServerTransport,
                             public std::enable_shared_from_this<VerbsServerTransport> {
 public:
  VerbsServerTransport(const ServerTransportContext& context, const TransportOffer& offer)
      : context_(context), offer_(offer), ring_(offer.transport == RpcTransport::kRing) {}

  Status Start(std::shared_ptr<const VerbsDevice> device, std::string* answer)
      LOCKS_EXCLUDED(mutex_);

  Status Poll(bool* progress) override LOCKS_EXCLUDED(mutex_);
  Status PrepareToSleep(bool* ready) override LOCKS_EXCLUDED(mutex_);
  int events() const override { return events_; }
  void TakeEvent() override LOCKS_EXCLUDED(mutex_);
  void End() override LOCKS_EXCLUDED(mutex_);
  RpcCounts counts() override LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return link_ != nullptr ? link_->counts() : last_counts_;
  }

 private:
  // A request whose payload is read out of the client's memory.
  struct Fetched {
    RequestHead head;
    FrameHeader frame;
    std::shared_ptr<RpcMemory> memory;
  };
  // A reply that did not fit.
  struct Parked {
    uint64_t call = 0;
    std::string frame;
  };
  // Bytes to be written to the client.
  struct Write {
    RpcRemote to;
    RingKind kind = RingKind::kMessage;
    uint64_t call = 0;
    std::optional<uint32_t> immediate;
    std::string frame;
  };
  Status MakeMemory() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status PostAllReceives() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status PostReceive(uint32_t id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of the connection's thread.
  Status PollRing(bool* progress) LOCKS_EXCLUDED(mutex_);
  // The ring's reader has something to do.
  Status Active() LOCKS_EXCLUDED(mutex_);
  Status HandleMessage(const Slice& bytes) LOCKS_EXCLUDED(mutex_);
  Status StartReading(const RequestMessage& message) LOCKS_EXCLUDED(mutex_);
  Status TakeFetched(bool* progress) LOCKS_EXCLUDED(mutex_);
  void Handle(const RequestHead& head, const FrameHeader& frame, const Slice& payload)
      LOCKS_EXCLUDED(mutex_);
  Status SendParked(const RequestMessage& message) LOCKS_EXCLUDED(mutex_);

  // Of any thread.
  void Reply(const RequestHead& head, const FrameHeader& request, const Status& status,
             const std::string& reply) LOCKS_EXCLUDED(mutex_);
  // Now if there is room, otherwise later. An error ends the connection: it is kept.
  void Send(Write write) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status SendWaiting() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // *sent is false if there is no room.
  Status TrySend(const Write& write, bool* sent) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status PostWrite(char* from, size_t bytes, uint32_t local_key, const Write& write,
                   VerbsRpcLink::Done done) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status TellState(VerbsRpcLink::Done done) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ServerTransportContext context_;
  const TransportOffer offer_;
  const bool ring_;
  // Constant once started.
  int events_ = -1;
  const char* receives_ = nullptr;

  // Of the connection's thread.
  std::optional<RingReader> reader_;
  std::vector<VerbsRpcLink::Received> received_;
  std::string request_;
  Clock::time_point idle_since_{};
  uint64_t requests_ = 0;

  port::Mutex mutex_;  // Protects what follows. Not held while the handler runs.
  std::shared_ptr<RpcMemory> ring_memory_ GUARDED_BY(mutex_);
  std::shared_ptr<RpcMemory> own_memory_ GUARDED_BY(mutex_);  // Receives, stagings, state.
  char* state_ GUARDED_BY(mutex_) = nullptr;
  std::vector<char*> free_stagings_ GUARDED_BY(mutex_);
  RpcMemoryPool pool_ GUARDED_BY(mutex_){IBV_ACCESS_LOCAL_WRITE};
  std::map<uint16_t, Parked> parked_ GUARDED_BY(mutex_);  // By slot.
  size_t parked_bytes_ GUARDED_BY(mutex_) = 0;
  std::deque<Write> waiting_ GUARDED_BY(mutex_);
  size_t reading_bytes_ GUARDED_BY(mutex_) = 0;
  std::vector<Fetched> fetched_ GUARDED_BY(mutex_);
  size_t calls_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  bool armed_ GUARDED_BY(mutex_) = false;
  bool armed_for_all_ GUARDED_BY(mutex_) = false;
  RingSleep sleep_ GUARDED_BY(mutex_);
  RpcCounts last_counts_ GUARDED_BY(mutex_);               // Of the link that has gone.
  std::unique_ptr<VerbsRpcLink> link_ GUARDED_BY(mutex_);  // Null once ended. Goes before memory.
};

Status VerbsServerTransport::Start(std::shared_ptr<const VerbsDevice> device, std::string* answer) {
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(
      VerbsRpcLink::Create(std::move(device), ring_ ? kWakeReceives : kReceives, &link_));
  DLSM_RETURN_IF_ERROR(MakeMemory());
  TransportAnswer made;
  VerbsEndpoint& endpoint = link_->endpoint();
  DLSM_RETURN_IF_ERROR(endpoint.Describe(offer_.end, SocketAddress(context_.socket), &made.end));
  DLSM_RETURN_IF_ERROR(endpoint.Connect(offer_.end));
  DLSM_RETURN_IF_ERROR(PostAllReceives());
  made.request_bytes_max = ring_ ? kRingRequestBytes : kReceiveBytes;
  if (ring_) {
    made.ring_address = ring_memory_->address();
    made.ring_key = ring_memory_->registration->rkey;
    made.ring_segments = kRingSegments;
    reader_.emplace(ring_memory_->data(), kRingSegments, offer_.salt);
  }
  events_ = link_->events();
  link_->OnBreak(context_.wake_up);
  idle_since_ = Clock::now();
  *answer = made.Encode();
  return Status::OK();
}

Status VerbsServerTransport::MakeMemory() {
  // The ring has memory of its own: all of a registration is open to the client.
  const size_t received = ring_ ? 0 : size_t{kReceives} * kReceiveBytes;
  const size_t bytes = received + kStagings * kStagingBytes + kSegmentBytes;
  if (ring_) {
    DLSM_RETURN_IF_ERROR(RpcMemory::Make(link_->domain(), kRingSegments * kSegmentBytes,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                         &ring_memory_));
  }
  DLSM_RETURN_IF_ERROR(
      RpcMemory::Make(link_->domain(), bytes, IBV_ACCESS_LOCAL_WRITE, &own_memory_));
  receives_ = own_memory_->data();
  char* const stagings = own_memory_->data() + received;
  for (size_t i = 0; i < kStagings; ++i) free_stagings_.push_back(stagings + i * kStagingBytes);
  state_ = stagings + kStagings * kStagingBytes;
  return Status::OK();
}

Status VerbsServerTransport::PostAllReceives() {
  for (uint32_t id = 0; id < (ring_ ? kWakeReceives : kReceives); ++id) {
    DLSM_RETURN_IF_ERROR(PostReceive(id));
  }
  return Status::OK();
}

Status VerbsServerTransport::PostReceive(uint32_t id) {
  if (ring_) return link_->PostReceive(id, nullptr, 0, 0);
  return link_->PostReceive(id, own_memory_->data() + size_t{id} * kReceiveBytes, kReceiveBytes,
                            own_memory_->registration->lkey);
}

Status VerbsServerTransport::Poll(bool* progress) {
  received_.clear();
  {
    const port::MutexLock lock(mutex_);
    DLSM_RETURN_IF_ERROR(failure_);
    DLSM_RETURN_IF_ERROR(link_->Poll(&received_, progress));
    DLSM_RETURN_IF_ERROR(SendWaiting());
  }
  // What a wake-up has come for is in the ring already: it was written before.
  if (ring_) {
    if (!received_.empty()) DLSM_RETURN_IF_ERROR(Active());
    DLSM_RETURN_IF_ERROR(PollRing(progress));
  }
  for (const VerbsRpcLink::Received& each : received_) {
    if (!ring_) {
      const char* const from = receives_ + size_t{each.id} * kReceiveBytes;
      DLSM_RETURN_IF_ERROR(HandleMessage(Slice(from, each.bytes)));
    }
    const port::MutexLock lock(mutex_);
    DLSM_RETURN_IF_ERROR(PostReceive(each.id));
  }
  return TakeFetched(progress);
}

Status VerbsServerTransport::PollRing(bool* progress) {
  // As many as were there at most, so that a client that goes on and on is no reason not to look at
  // its control connection.
  bool found = true;
  for (size_t i = 0; i < kRpcSlots && found; ++i) {
    DLSM_RETURN_IF_ERROR(reader_->Next(&found, &request_));
    if (!found) break;
    *progress = true;
    if (i == 0) DLSM_RETURN_IF_ERROR(Active());
    DLSM_RETURN_IF_ERROR(HandleMessage(request_));
  }
  return Status::OK();
}

Status VerbsServerTransport::Active() {
  idle_since_ = Clock::now();
  const port::MutexLock lock(mutex_);
  return sleep_.Active() ? TellState({}) : Status::OK();
}

Status VerbsServerTransport::HandleMessage(const Slice& bytes) {
  RequestMessage message;
  DLSM_RETURN_IF_ERROR(message.Decode(bytes));
  ++requests_;
  if (message.head.kind == RequestKind::kFetch) return SendParked(message);
  {
    const port::MutexLock lock(mutex_);
    // The slot's earlier call has been given up.
    const auto parked = parked_.find(message.head.slot);
    if (parked != parked_.end()) {
      parked_bytes_ -= parked->second.frame.size();
      parked_.erase(parked);
    }
  }
  if (message.head.kind == RequestKind::kRemote) return StartReading(message);
  Handle(message.head, message.frame, message.payload);
  return Status::OK();
}

Status VerbsServerTransport::StartReading(const RequestMessage& message) {
  const size_t bytes = message.frame.payload_bytes;
  if (bytes == 0) return Status::Corruption("a request's payload is elsewhere, and empty");
  const port::MutexLock lock(mutex_);
  const uint64_t part_max = link_->message_bytes_max();
  const size_t parts = (bytes + part_max - 1) / part_max;
  if (reading_bytes_ + bytes > kReadBytesMax || !link_->HasRoom(parts)) {
    return Status::Busy("too many large requests at once on this connection");
  }
  std::shared_ptr<RpcMemory> memory;
  DLSM_RETURN_IF_ERROR(pool_.Take(link_->domain(), bytes, &memory));
  std::vector<ibv_send_wr> chain(parts);
  std::vector<ibv_sge> pieces(parts);
  for (size_t i = 0; i < parts; ++i) {
    const uint64_t offset = i * part_max;
    pieces[i] = ibv_sge{memory->address() + offset,
                        static_cast<uint32_t>(std::min<uint64_t>(part_max, bytes - offset)),
                        memory->registration->lkey};
    chain[i].sg_list = &pieces[i];
    chain[i].num_sge = 1;
    chain[i].opcode = IBV_WR_RDMA_READ;
    chain[i].wr.rdma.remote_addr = message.head.payload_address + offset;
    chain[i].wr.rdma.rkey = message.head.payload_key;
  }
  reading_bytes_ += bytes;
  return link_->Post(chain.data(), parts,
                     [this, head = message.head, frame = message.frame, memory] {
                       mutex_.AssertHeld();
                       fetched_.push_back(Fetched{head, frame, memory});
                     });
}

Status VerbsServerTransport::TakeFetched(bool* progress) {
  std::vector<Fetched> fetched;
  {
    const port::MutexLock lock(mutex_);
    fetched.swap(fetched_);
  }
  if (!fetched.empty()) *progress = true;
  for (Fetched& each : fetched) {
    const Slice payload(each.memory->data(), each.frame.payload_bytes);
    if (Crc32c(payload) != each.frame.payload_checksum) {
      return Status::Corruption("frame payload has a wrong checksum");
    }
    Handle(each.head, each.frame, payload);
    const port::MutexLock lock(mutex_);
    reading_bytes_ -= each.frame.payload_bytes;
    each.memory.reset();
  }
  return Status::OK();
}

void VerbsServerTransport::Handle(const RequestHead& head, const FrameHeader& frame,
                                  const Slice& payload) {
  bool too_many = false;
  {
    const port::MutexLock lock(mutex_);
    too_many = ++calls_ > kCallsMax;
  }
  RpcDone done = [self = shared_from_this(), head, frame](const Status& status,
                                                          const std::string& reply) {
    self->Reply(head, frame, status, reply);
  };
  if (too_many) {
    done(Status::Busy("too many calls without an answer on this connection"), std::string());
  } else {
    context_.handler->Handle(context_.peer, frame.method, payload, std::move(done));
  }
}

void VerbsServerTransport::Reply(const RequestHead& head, const FrameHeader& request,
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
  if (!sent) waiting_.push_back(std::move(write));
  context_.wake_up();
}

Status VerbsServerTransport::SendWaiting() {
  while (!waiting_.empty()) {
    bool sent = false;
    DLSM_RETURN_IF_ERROR(TrySend(waiting_.front(), &sent));
    if (!sent) return Status::OK();
    waiting_.pop_front();
  }
  return Status::OK();
}

Status VerbsServerTransport::TrySend(const Write& write, bool* sent) {
  const size_t bytes = SegmentsOf(write.frame.size()) * kSegmentBytes;
  const size_t parts = (bytes + link_->message_bytes_max() - 1) / link_->message_bytes_max();
  *sent = false;
  if (!link_->HasRoom(parts)) return Status::OK();
  const auto build = [&](char* to) {
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
  const size_t parts = (bytes + part_max - 1) / part_max;
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
  if (!link_->HasRoom(1)) {
    return Status::Busy("the client's queue pair takes nothing more");
  }
  return link_->Post(&request, 1, std::move(done));
}

Status VerbsServerTransport::PrepareToSleep(bool* ready) {
  *ready = false;
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(failure_);
  if (!fetched_.empty()) return Status::OK();
  if (ring_) {
    if (sleep_.awake() && (Clock::now() - idle_since_ < kRingIdle || !link_->HasRoom(kStagings))) {
      return Status::OK();
    }
    const RingSleep::Next next = sleep_.Idle();
    if (next == RingSleep::Next::kTell) {
      return TellState([this, state = sleep_.state()] {
        mutex_.AssertHeld();
        sleep_.Told(state);
      });
    }
    if (next == RingSleep::Next::kPoll) return Status::OK();
  }
  // Reads and the room in the send queue come back without being solicited.
  const bool all = !waiting_.empty() || reading_bytes_ > 0;
  if (armed_ && (armed_for_all_ || !all)) {
    *ready = true;
    link_->CountSleep();
    return Status::OK();
  }
  armed_ = true;
  armed_for_all_ = all;
  return link_->Arm(/*solicited=*/!all);
}

void VerbsServerTransport::TakeEvent() {
  const port::MutexLock lock(mutex_);
  armed_ = false;
  link_->TakeEvent();
}

void VerbsServerTransport::End() {
  const port::MutexLock lock(mutex_);
  if (link_ == nullptr) return;
  const RpcCounts counts = last_counts_ = link_->counts();
  Log().info("{}: {} requests over {}; {} work requests, {} doorbells, {} completions, {} sleeps",
             context_.peer.name, requests_, RpcTransportName(offer_.transport),
             counts.work_requests, counts.doorbells, counts.completions, counts.sleeps);
  pool_ = RpcMemoryPool(IBV_ACCESS_LOCAL_WRITE);
  link_.reset();
  ring_memory_.reset();
  own_memory_.reset();
}

}  // namespace

Status NewVerbsTransportFactory(const VerbsOptions& options, ServerTransportFactory* factory) {
  std::shared_ptr<const VerbsDevice> device;
  DLSM_RETURN_IF_ERROR(VerbsDevice::Open(options, &device));
  *factory = [device](const ServerTransportContext& context, const Slice& offer,
                      std::shared_ptr<ServerTransport>* transport, std::string* answer) {
    TransportOffer wanted;
    DLSM_RETURN_IF_ERROR(wanted.Decode(offer));
    auto made = std::make_shared<VerbsServerTransport>(context, wanted);
    DLSM_RETURN_IF_ERROR(made->Start(device, answer));
    *transport = std::move(made);
    return Status::OK();
  };
  return Status::OK();
}

}  // namespace dlsm
