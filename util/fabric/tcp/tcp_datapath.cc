#include "util/fabric/tcp/tcp_datapath.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/clock.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

constexpr size_t kPartsMax = 256;  // Of one sendmsg(): some 100 writes of a few hundred bytes.
// A bound against callers that post and never wait.
constexpr size_t kOutstandingMax = size_t{1} << 20;
// The same in bytes as kTogetherMax in reads.
constexpr size_t kTogetherBytesMax = size_t{32} << 10;
// Of one sleep in a system call that knows no deadlines; those nearer than two of it take another.
constexpr milliseconds kSleepMost{50};

}  // namespace

TcpQueuePair::TcpQueuePair(TcpStream stream, std::shared_ptr<const TcpPeer> peer,
                           WireCostRegistry& costs, PollGroup& polls, TcpReadSharing* sharing)
    : peer_(std::move(peer)),
      check_(peer_->node, peer_->regions),
      stream_(std::move(stream)),
      sleeps_in_receive_(stream_.PrepareSleep(kSleepMost)),
      ledger_(costs),
      poll_(polls) {
  if (sharing != nullptr) together_with_others_.emplace(*sharing);
}

TcpQueuePair::~TcpQueuePair() {
  if (error_.ok() && !outstanding_.empty()) Drain();
}

Status TcpQueuePair::CheckRoom() {
  if (outstanding_.size() < kOutstandingMax) [[likely]]
    return Status::OK();
  return Close(Status::InvalidArgument(
      fmt::format("{} requests were posted and not waited for", kOutstandingMax)));
}

// Where there is no memory for all of it, some may be there. Without its place among those
// outstanding it would get the next one's answer.
Status TcpQueuePair::Append(const TcpRequest& request, const Outstanding& outstanding,
                            const char* payload) try {
  request.Encode(sending_.AddHeader(TcpRequest::kBytes));
  if (payload != nullptr) sending_.AddPayload(payload, outstanding.bytes);
  outstanding_.push_back(outstanding);
  outstanding_.back().ends_at = sending_.added();
  return Status::OK();
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status TcpQueuePair::PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                              Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  Status status = check_.Transfer(from, to, &region);
  if (!status.ok()) [[unlikely]]
    return Close(std::move(status));
  DLSM_RETURN_IF_ERROR(CheckRoom());
  *ticket = ledger_.PostRead(from.bytes, purpose);
  const auto sequence = static_cast<uint32_t>(*ticket);
  return Append(
      TcpRequest{TcpOpcode::kRead, sequence, from.region, from.offset, from.bytes, 0},
      Outstanding{TcpOpcode::kRead, from.region, from.offset, to.data, to.bytes, nullptr});
}

Status TcpQueuePair::PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                               Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  Status status = check_.Transfer(to, from, &region);
  if (!status.ok()) [[unlikely]]
    return Close(std::move(status));
  DLSM_RETURN_IF_ERROR(CheckRoom());
  *ticket = ledger_.PostWrite(to.bytes, purpose);
  const auto sequence = static_cast<uint32_t>(*ticket);
  return Append(TcpRequest{TcpOpcode::kWrite, sequence, to.region, to.offset, to.bytes, 0},
                Outstanding{TcpOpcode::kWrite, {}, 0, nullptr, from.bytes, nullptr}, from.data);
}

Status TcpQueuePair::PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                                        uint64_t* prior, Purpose purpose, Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  Status status = check_.Atomic(word, &region);
  if (!status.ok()) [[unlikely]]
    return Close(std::move(status));
  DLSM_RETURN_IF_ERROR(CheckRoom());
  *ticket = ledger_.PostAtomic(purpose);
  const auto sequence = static_cast<uint32_t>(*ticket);
  return Append(
      TcpRequest{TcpOpcode::kCompareAndSwap, sequence, word.region, word.offset, expected, desired},
      Outstanding{TcpOpcode::kCompareAndSwap, {}, 0, nullptr, 0, prior});
}

Status TcpQueuePair::PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior,
                                  Purpose purpose, Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  Status status = check_.Atomic(word, &region);
  if (!status.ok()) [[unlikely]]
    return Close(std::move(status));
  DLSM_RETURN_IF_ERROR(CheckRoom());
  *ticket = ledger_.PostAtomic(purpose);
  const auto sequence = static_cast<uint32_t>(*ticket);
  return Append(TcpRequest{TcpOpcode::kFetchAdd, sequence, word.region, word.offset, addend, 0},
                Outstanding{TcpOpcode::kFetchAdd, {}, 0, nullptr, 0, prior});
}

// Where there is no memory to go on, or to say what is wrong, the queue pair closes all the same,
// here and in Wait(): whoever has posted takes its buffers back then, whatever it is told.
Status TcpQueuePair::Ring() try {
  DLSM_RETURN_IF_ERROR(error_);
  ledger_.Ring();
  bool progress = false;
  return Start(&progress);
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status TcpQueuePair::Start(bool* progress) {
  sending_.Ring();
  started_ = completed_ + outstanding_.size();
  return SendSome(progress);
}

Status TcpQueuePair::Wait(Ticket ticket, Deadline deadline) try {
  DLSM_RETURN_IF_ERROR(error_);
  ledger_.Ring();
  const auto until = static_cast<uint64_t>(ticket);
  if (completed_ < until && ReadTogether(deadline)) {
    ledger_.Wait(ticket);
    return Status::OK();
  }
  bool just_sent = false;
  DLSM_RETURN_IF_ERROR(Start(&just_sent));
  ledger_.Wait(ticket);
  if (completed_ >= until) return Status::OK();
  poll_.Begin();
  Status status = Await(until, just_sent, deadline);
  poll_.End();
  return status;
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

bool TcpQueuePair::MayReadTogether() {
  if (started_ > completed_ || outstanding_.empty() || outstanding_.size() > kTogetherMax) {
    return false;
  }
  together_.clear();
  uint64_t bytes = 0;
  for (size_t i = 0; i < outstanding_.size(); ++i) {
    const Outstanding& request = outstanding_[i];
    if (request.opcode != TcpOpcode::kRead) return false;
    bytes += request.bytes;
    together_.push_back({request.region, request.offset, LocalSpan{request.data, request.bytes}});
  }
  return bytes <= kTogetherBytesMax;
}

bool TcpQueuePair::ReadTogether(Deadline deadline) try {
  if (!together_with_others_ || !together_with_others_->Pays() || !MayReadTogether()) return false;
  // What was wrong with others' reads, or with that connection, is no concern of these: they are
  // made again then, by this one.
  if (!together_with_others_->Read(together_, deadline)) return false;
  completed_ += outstanding_.size();
  outstanding_.clear();
  sending_.Clear();
  return true;
} catch (const std::bad_alloc&) {
  return false;  // None of them has been submitted. To read alone takes less.
}

Status TcpQueuePair::Await(uint64_t until, bool just_sent, Deadline deadline) try {
  // What has just been asked for is not there yet: the first look would be a system call for
  // nothing.
  bool look = !just_sent;
  bool sleep = false;
  while (true) {
    bool progress = false;
    DLSM_RETURN_IF_ERROR(SendSome(&progress));
    if (look) {
      DLSM_RETURN_IF_ERROR(ReceiveSome(&progress, sleep));
      if (completed_ >= until) return Status::OK();
      if (deadline.Passed()) {
        port::AllocationPoint("tcp: timed out");
        return Close(Status::TimedOut(fmt::format(
            "{} has not answered in time: is it overloaded, or its network down?", peer_->name)));
      }
    }
    look = true;
    sleep = false;
    if (progress || poll_.Again()) continue;
    // One system call in place of two, where nothing but an answer is waited for.
    sleep = sleeps_in_receive_ && sending_.drained() && deadline.Remaining() > 2 * kSleepMost;
    if (sleep) continue;
    const int events = sending_.drained() ? POLLIN : POLLIN | POLLOUT;
    PollSocket(stream_.get(), static_cast<short>(events), deadline);
  }
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status TcpQueuePair::SendSome(bool* progress) {
  iovec parts[kPartsMax];
  while (!sending_.drained()) {
    const size_t count = sending_.Gather(parts, kPartsMax);
    size_t moved = 0;
    const SocketOutcome outcome = stream_.Send(parts, count, &moved);
    if (outcome == SocketOutcome::kBlocked) break;
    if (outcome != SocketOutcome::kMoved) {
      const std::string why = stream_.Failure();
      // The server's last words say more than a broken pipe.
      DLSM_RETURN_IF_ERROR(ReceiveSome(progress));
      return Close(TcpConnectionLost(*peer_, why));
    }
    sending_.Consume(moved);
    *progress = true;
  }
  return Status::OK();
}

Status TcpQueuePair::ReceiveSome(bool* progress, bool sleep) {
  iovec parts[2 * kRepliesPerCall];
  while (!outstanding_.empty()) {
    size_t wanted = 0;
    const size_t count = GatherReplies(parts, &wanted);
    size_t moved = 0;
    const SocketOutcome outcome = sleep ? stream_.ReceiveOrSleep(parts, count, &moved)
                                        : stream_.Receive(parts, count, &moved);
    sleep = false;
    switch (outcome) {
      case SocketOutcome::kMoved:
        break;
      case SocketOutcome::kBlocked:
        return Status::OK();
      case SocketOutcome::kEnded:
        return Close(TcpConnectionLost(*peer_, "it closed the connection"));
      case SocketOutcome::kFailed:
        return Close(TcpConnectionLost(*peer_, stream_.Failure()));
    }
    *progress = true;
    DLSM_RETURN_IF_ERROR(ConsumeReplies(moved));
    if (moved < wanted) break;
  }
  return Status::OK();
}

size_t TcpQueuePair::GatherReplies(iovec* parts, size_t* bytes) {
  size_t count = 0;
  size_t skip = front_received_;
  const auto add = [&](char* data, size_t size) {
    const size_t skipped = std::min(skip, size);
    skip -= skipped;
    if (skipped == size) return;
    parts[count++] = iovec{data + skipped, size - skipped};
    *bytes += size - skipped;
  };
  const size_t replies = std::min(outstanding_.size(), kRepliesPerCall);
  for (size_t i = 0; i < replies; ++i) {
    const Outstanding& request = outstanding_[i];
    add(Header(completed_ + 1 + i), TcpReply::kBytes);
    if (request.payload() > 0) add(request.data, request.payload());
  }
  return count;
}

Status TcpQueuePair::ConsumeReplies(size_t bytes) {
  while (bytes > 0) {
    const Outstanding& request = outstanding_.front();
    const size_t reply_bytes = TcpReply::kBytes + request.payload();
    const size_t before = front_received_;
    const size_t taken = std::min(bytes, reply_bytes - before);
    front_received_ += taken;
    bytes -= taken;
    // As soon as the header is whole: after a refusal no payload comes.
    if (before < TcpReply::kBytes && front_received_ >= TcpReply::kBytes) {
      DLSM_RETURN_IF_ERROR(CheckReply(request, Header(completed_ + 1)));
    }
    if (front_received_ < reply_bytes) break;
    front_received_ = 0;
    ++completed_;
    outstanding_.pop_front();
  }
  return Status::OK();
}

Status TcpQueuePair::CheckReply(const Outstanding& request, const char* header) {
  TcpReply reply;
  const auto sequence = static_cast<uint32_t>(completed_ + 1);
  const TcpExpectation expected{request.opcode, sequence, request.bytes};
  Status status = ReadTcpReply(*peer_, expected, header, &reply);
  if (!status.ok()) [[unlikely]]
    return Close(std::move(status));
  // Its owner takes the bytes of a write back then, and what is left would be sent from there.
  if (request.ends_at > sending_.passed()) [[unlikely]] {
    return Close(Status::Corruption(peer_->name + " answered a request before it had all of it"));
  }
  if (request.prior != nullptr) *request.prior = reply.value;
  return Status::OK();
}

Status TcpQueuePair::Close(Status why) {
  if (!outstanding_.empty()) Drain();
  stream_.Close();
  outstanding_.clear();
  sending_.Clear();
  error_ = std::move(why);
  IfMemoryPermits([this] { Log().Info("queue pair closed: {}", error_.ToString()); });
  return error_;
}

// Nothing may land at either end once the owner has its buffers back. Here nothing can, because
// only this thread receives. There, the server closes its end when it has carried out all that it
// had received, and that is waited for; a server that hangs gets a reset, and drops what it has
// received when it sees that: by kTcpDrain later it has seen it. TLS may be what has failed, and
// would tell of no end any more: so the socket is asked.
void TcpQueuePair::Drain() {
  (void)::shutdown(stream_.get(), SHUT_WR);
  const Deadline deadline = Deadline::In(kTcpDrain);
  char discarded[4096];
  while (!deadline.Passed()) {
    iovec part{discarded, sizeof(discarded)};
    size_t moved = 0;
    const SocketOutcome outcome = SocketReceive(stream_.get(), &part, 1, &moved);
    if (outcome == SocketOutcome::kEnded || outcome == SocketOutcome::kFailed) return;
    if (outcome == SocketOutcome::kBlocked) PollSocket(stream_.get(), POLLIN, deadline);
  }
  // Closed without time to linger, it would not be reset while a child of this process has it, too.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  if (::connect(stream_.get(), &nobody, sizeof(nobody)) != 0) {
    // Not every kernel, or whoever filters its system calls, permits that.
    const linger reset{1, 0};
    (void)::setsockopt(stream_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    stream_.Close();
  }
  // A late read harms nobody: its answer goes nowhere.
  if (MayStillChangeMemory()) port::SleepFor(kTcpDrain);
}

bool TcpQueuePair::MayStillChangeMemory() const {
  for (size_t i = 0; i < outstanding_.size(); ++i) {
    if (outstanding_[i].opcode != TcpOpcode::kRead) return true;
  }
  return false;
}

}  // namespace dlsm
