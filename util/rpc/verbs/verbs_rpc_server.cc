#include "util/rpc/verbs/verbs_rpc_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "util/checksum.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/log.h"
#include "util/rpc/verbs/verbs_rpc_server_transport.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// ring: these take only the immediates that wake the thread.
constexpr uint32_t kWakeReceives = 16;
constexpr size_t kRingSegments = 2048;
constexpr uint32_t kRingRequestBytes = 16 << 10;

// What a client can make this process keep: requests to be read out of its memory, calls without an
// answer.
constexpr size_t kReadBytesMax = 2 * kFrameBytesMax;
constexpr size_t kCallsMax = 1024;

}  // namespace

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
    DLSM_RETURN_IF_ERROR(TellAwake());
    DLSM_RETURN_IF_ERROR(SendWaiting());
    DLSM_RETURN_IF_ERROR(ReadUnread());
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
  if (sleep_.Active()) untold_ = true;
  return TellAwake();
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
  if (message.frame.payload_bytes == 0) {
    return Status::Corruption("a request's payload is elsewhere, and empty");
  }
  const port::MutexLock lock(mutex_);
  if (unread_.size() >= kRpcSlots) {
    return Status::Corruption("the client has more large requests under way than slots");
  }
  unread_.push_back(Fetched{message.head, message.frame, nullptr});
  return ReadUnread();
}

// What is waited for comes without the client's doing: the device ends reads and replies, and this
// thread what has been read.
Status VerbsServerTransport::ReadUnread() {
  while (!unread_.empty()) {
    const size_t bytes = unread_.front().frame.payload_bytes;
    const bool room = reading_bytes_ + bytes <= kReadBytesMax;
    if (!room || !link_->HasRoom(link_->PartsOf(bytes))) return Status::OK();
    DLSM_RETURN_IF_ERROR(Read(unread_.front()));
    unread_.pop_front();
  }
  return Status::OK();
}

Status VerbsServerTransport::Read(const Fetched& unread) {
  const size_t bytes = unread.frame.payload_bytes;
  const uint64_t part_max = link_->message_bytes_max();
  const size_t parts = link_->PartsOf(bytes);
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
    chain[i].wr.rdma.remote_addr = unread.head.payload_address + offset;
    chain[i].wr.rdma.rkey = unread.head.payload_key;
  }
  reading_bytes_ += bytes;
  return link_->Post(chain.data(), parts, [this, head = unread.head, frame = unread.frame, memory] {
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
    DLSM_RETURN_IF_ERROR(ReadUnread());
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

Status VerbsServerTransport::PrepareToSleep(bool* ready) {
  *ready = false;
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(failure_);
  if (!fetched_.empty()) return Status::OK();
  if (ring_) {
    const bool can_tell = !untold_ && link_->HasRoom(1);
    if (sleep_.awake() && (Clock::now() - idle_since_ < kRingIdle || !can_tell)) {
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
  const bool all = !waiting_.empty() || !unread_.empty() || reading_bytes_ > 0;
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
  Log().Info("{}: {} requests over {}; {} work requests, {} doorbells, {} completions, {} sleeps",
             context_.peer.name, requests_, RpcTransportName(offer_.transport),
             counts.work_requests, counts.doorbells, counts.completions, counts.sleeps);
  pool_ = RpcMemoryPool(IBV_ACCESS_LOCAL_WRITE);
  link_.reset();
  ring_memory_.reset();
  own_memory_.reset();
}

Status NewVerbsTransportFactory(const VerbsOptions& options, ServerTransportFactory* factory) {
  std::shared_ptr<const VerbsDevice> device;
  DLSM_RETURN_IF_ERROR(VerbsDevice::Open(options, &device));
  *factory = [device](const ServerTransportContext& context, const Slice& offer,
                      std::shared_ptr<ServerTransport>* transport, std::string* answer) {
    TransportOffer wanted;
    DLSM_RETURN_IF_ERROR(wanted.Decode(offer));
    DLSM_RETURN_IF_ERROR(VerbsRpcLink::CheckDevice(*device));
    auto made = std::make_shared<VerbsServerTransport>(context, wanted);
    DLSM_RETURN_IF_ERROR(made->Start(device, answer));
    *transport = std::move(made);
    return Status::OK();
  };
  return Status::OK();
}

}  // namespace dlsm
