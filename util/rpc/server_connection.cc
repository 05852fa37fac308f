#include "util/rpc/server_connection.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/cpu.h"
#include "port/error_text.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/verbs/rpc_transport.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Replies that a peer has not taken. One that leaves more is cut off.
constexpr size_t kOutputBytesMax = 2 * kFrameBytesMax;

// Calls of one connection without an answer. Merges are the slow ones, and they have a queue of
// their own that is far shorter.
constexpr size_t kCallsMax = 1024;

// How often the socket is looked at while there is always something to do beside it.
constexpr auto kSocketPeriod = std::chrono::milliseconds(1);

}  // namespace

ServerConnection::ServerConnection(TcpStream stream, std::chrono::milliseconds progress_timeout)
    : progress_timeout_(progress_timeout),
      stream_(std::move(stream)),
      wakeup_(Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))),
      frame_deadline_(Deadline::In(progress_timeout)),
      output_deadline_(frame_deadline_) {}

Status ServerConnection::Begin(const FrameKeys& keys, std::function<void()> wants_serving) {
  wants_serving_ = std::move(wants_serving);
  DLSM_RETURN_IF_ERROR(seals_.MakeForMemoryNode(keys));
  assembler_ = std::make_unique<FrameAssembler>(seals_.received.get());
  return can_serve() ? Status::OK() : CannotOpen("an event", EMFILE);
}

Status ServerConnection::Serve(const RpcPeer& peer, RpcHandler* handler,
                               const ServerTransportFactory& transports,
                               std::chrono::milliseconds patience) {
  return WithinMemory([&] { return ServeWhileBusy(peer, handler, transports, patience); },
                      &OutOfNodeMemory);
}

void ServerConnection::End() {
  if (transport_ != nullptr) transport_->End();
  const port::MutexLock lock(mutex_);
  ended_ = true;
  output_ = std::string();
}

Status ServerConnection::ServeWhileBusy(const RpcPeer& peer, RpcHandler* handler,
                                        const ServerTransportFactory& transports,
                                        std::chrono::milliseconds patience) {
  Deadline idle = Deadline::In(patience);
  while (true) {
    bool may_sleep = true;
    Events events;
    if (transport_ != nullptr) DLSM_RETURN_IF_ERROR(PollTransport(&may_sleep));
    DLSM_RETURN_IF_ERROR(AwaitEvents(may_sleep, idle, &events));
    if (events.readable) {
      DLSM_RETURN_IF_ERROR(ReceiveRequests(peer, handler, transports));
      idle = Deadline::In(patience);
    }
    if (events.writable) DLSM_RETURN_IF_ERROR(SendOutput());
    if (events.idle && idle.Passed()) return Status::OK();
  }
}

Status ServerConnection::PollTransport(bool* may_sleep) {
  const auto look_at = Deadline::Clock::now() + kSocketPeriod;
  while (true) {
    bool progress = false;
    DLSM_RETURN_IF_ERROR(transport_->Poll(&progress));
    *may_sleep = false;
    if (!progress) DLSM_RETURN_IF_ERROR(transport_->PrepareToSleep(may_sleep));
    if (*may_sleep || Deadline::Clock::now() >= look_at) return Status::OK();
    if (!progress) port::CpuRelax();
  }
}

Status ServerConnection::AwaitEvents(bool may_sleep, Deadline idle, Events* events) {
  bool has_output = false;
  Deadline output_deadline = Deadline::At({});
  {
    const port::MutexLock lock(mutex_);
    if (output_.size() - output_sent_ > kOutputBytesMax) {
      return Status::Busy("the client does not take its replies");
    }
    has_output = output_sent_ < output_.size();
    output_deadline = output_deadline_;
  }
  const bool started = assembler_->started();
  const bool under_way = started || has_output || transport_ != nullptr;
  int timeout = -1;
  const auto wait_until = [&timeout](const Deadline& deadline) {
    const int left = PollTimeout(deadline);
    timeout = timeout < 0 ? left : std::min(timeout, left);
  };
  if (started) wait_until(frame_deadline_);
  if (has_output) wait_until(output_deadline);
  if (!under_way) wait_until(idle);
  const bool holds_input = stream_.holds_input();
  if (!may_sleep || holds_input) timeout = 0;
  const short wanted = static_cast<short>(has_output ? POLLIN | POLLOUT : POLLIN);
  // poll() passes over a descriptor of -1.
  const int transport_events = transport_ != nullptr ? transport_->events() : -1;
  pollfd waited[3] = {
      {stream_.get(), wanted, 0}, {wakeup_.get(), POLLIN, 0}, {transport_events, POLLIN, 0}};
  if (poll(waited, 3, timeout) < 0 && errno != EINTR) {
    return Status::IOError("poll", port::ErrorText(errno));
  }
  events->readable = holds_input || (waited[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  events->writable = (waited[0].revents & POLLOUT) != 0;
  if (waited[1].revents != 0) {
    // What it counts does not matter, only that it can be waited for again.
    uint64_t count = 0;
    static_cast<void>(!read(wakeup_.get(), &count, sizeof(count)));
  }
  if (waited[2].revents != 0) transport_->TakeEvent();
  if (!events->readable && started && frame_deadline_.Passed()) {
    return Status::TimedOut("the rest of a request did not come in time");
  }
  events->idle = !under_way && !events->readable && waited[1].revents == 0;
  if (!events->writable && has_output && output_deadline.Passed()) {
    return Status::TimedOut("the client does not take its replies");
  }
  return Status::OK();
}

Status ServerConnection::ReceiveRequests(const RpcPeer& peer, RpcHandler* handler,
                                         const ServerTransportFactory& transports) {
  size_t bytes = 0;
  char* to = assembler_->Space(&bytes);
  iovec part{to, bytes};
  size_t received = 0;
  switch (stream_.Receive(&part, 1, &received)) {
    case SocketOutcome::kMoved:
      break;
    case SocketOutcome::kBlocked:
      return Status::OK();
    case SocketOutcome::kEnded:
      return Status::IOError("closed by the client");
    case SocketOutcome::kFailed:
      return Status::IOError(stream_.Failure());
  }
  frame_deadline_ = Deadline::In(progress_timeout_);
  DLSM_RETURN_IF_ERROR(assembler_->Filled(received));
  if (!assembler_->complete()) return Status::OK();
  if (assembler_->header().type != FrameType::kRequest) {
    return Status::Corruption("the client sent a reply where a request belongs");
  }
  if (assembler_->header().method == kOpenTransport) {
    return OpenTransport(peer, handler, transports);
  }
  HandleRequest(peer, handler);
  return Status::OK();
}

// A refusal is an answer as any; the connection goes on without the transport.
Status ServerConnection::OpenTransport(const RpcPeer& peer, RpcHandler* handler,
                                       const ServerTransportFactory& transports) {
  const FrameHeader header = assembler_->header();
  const std::string offer = assembler_->TakePayload();
  if (transport_ != nullptr) return Status::Corruption("the client asked for a second transport");
  Status status;
  std::string answer;
  if (transports) {
    ServerTransportContext context{peer, handler, stream_.get(), {}};
    context.wake_up = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->WakeUp();
    };
    status = transports(context, offer, &transport_, &answer);
  } else {
    status = Status::NotSupported(
        "this memory node answers calls over tcp only; start Server with --fabric=verbs, or use "
        "the rpc transport tcp");
  }
  if (!status.ok()) Log().Warn("{} gets no other transport: {}", peer.name, status.ToString());
  {
    const port::MutexLock lock(mutex_);
    ++calls_;
  }
  Reply(header.method, header.call, status, answer);
  return Status::OK();
}

void ServerConnection::WakeUp() {
  const uint64_t one = 1;
  static_cast<void>(!write(wakeup_.get(), &one, sizeof(one)));
}

void ServerConnection::HandleRequest(const RpcPeer& peer, RpcHandler* handler) {
  const FrameHeader header = assembler_->header();
  const std::string request = assembler_->TakePayload();
  bool too_many = false;
  {
    const port::MutexLock lock(mutex_);
    too_many = ++calls_ > kCallsMax;
  }
  RpcDone done = [self = shared_from_this(), header](const Status& status,
                                                     const std::string& reply) {
    self->Reply(header.method, header.call, status, reply);
  };
  if (too_many) {
    done(Status::Busy("too many calls without an answer on this connection"), std::string());
  } else {
    handler->Handle(peer, header.method, request, std::move(done));
  }
}

// Whose answer there is no memory for hears of it by the end of the connection, and asks again over
// another one: of a frame that was begun, or sealed, nothing else can be made.
void ServerConnection::Reply(Method method, uint64_t call, const Status& status,
                             const std::string& reply) noexcept {
  try {
    port::AllocationPoint("memory node: reply");
    MakeReply(method, call, status, reply);
  } catch (const std::bad_alloc&) {
    Stop();
  }
}

void ServerConnection::MakeReply(Method method, uint64_t call, const Status& status,
                                 const std::string& reply) {
  std::string frame;
  Status made = MakeFrame(FrameType::kReply, method, status.code(), call,
                          status.ok() ? Slice(reply) : status.message(), &frame);
  if (!made.ok()) {
    // An error's message always fits.
    made = MakeFrame(FrameType::kReply, method, made.code(), call, made.message(), &frame);
    made.PermitUncheckedError();
  }
  const port::MutexLock lock(mutex_);
  --calls_;
  if (ended_) return;
  try {
    SendReply(&frame);
  } catch (const std::bad_alloc&) {
    ended_ = true;  // Nothing may follow a part of this one.
    throw;
  }
}

void ServerConnection::SendReply(std::string* frame) {
  if (!seals_.sent->Append(frame).ok()) return;
  Slice rest(*frame);
  if (output_sent_ == output_.size()) {
    const Status sent = SendSome(&rest);
    if (!sent.ok() || rest.empty()) return;  // A broken connection is noticed by Serve().
    output_.clear();
    output_sent_ = 0;
    output_deadline_ = Deadline::In(progress_timeout_);
  }
  output_.append(rest.data(), rest.size());
  WakeUp();
  if (wants_serving_) wants_serving_();
}

Status ServerConnection::SendOutput() {
  const port::MutexLock lock(mutex_);
  Slice rest(output_.data() + output_sent_, output_.size() - output_sent_);
  const size_t before = rest.size();
  DLSM_RETURN_IF_ERROR(SendSome(&rest));
  output_sent_ = output_.size() - rest.size();
  if (rest.size() < before) output_deadline_ = Deadline::In(progress_timeout_);
  if (rest.empty()) {
    output_ = std::string();
    output_sent_ = 0;
  } else if (output_sent_ >= rest.size()) {
    // With a client that always asks for more before it has taken all, it is never empty. To move
    // no more than was sent costs no more than to send it.
    output_.erase(0, output_sent_);
    output_sent_ = 0;
  }
  return Status::OK();
}

Status ServerConnection::SendSome(Slice* bytes) {
  while (!bytes->empty()) {
    iovec part{const_cast<char*>(bytes->data()), bytes->size()};  // It is not written to.
    size_t moved = 0;
    switch (stream_.Send(&part, 1, &moved)) {
      case SocketOutcome::kMoved:
        bytes->remove_prefix(moved);
        break;
      case SocketOutcome::kBlocked:
        return Status::OK();
      default:
        return Status::IOError(stream_.Failure());
    }
  }
  return Status::OK();
}

}  // namespace dlsm
