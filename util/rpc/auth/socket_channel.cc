#include "util/rpc/auth/socket_channel.h"

#include <fmt/core.h>

#include <cassert>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/auth/socket.h"
#include "util/status_macros.h"

namespace dlsm {

SocketChannel::SocketChannel(ControlStream control, std::string where, std::function<void()> ended)
    : where_(std::move(where)),
      ended_(std::move(ended)),
      stream_(std::move(control.stream)),
      seals_(std::move(control.seals)),
      assembler_(seals_.received.get()) {}

Status SocketChannel::Open(ControlStream control, std::string where, std::function<void()> ended,
                           std::shared_ptr<RpcChannel>* channel) {
  std::shared_ptr<SocketChannel> made(
      new SocketChannel(std::move(control), std::move(where), std::move(ended)));
  std::shared_ptr<SocketWatch> watch;
  DLSM_RETURN_IF_ERROR(SocketWatch::OfClients(&watch));
  DLSM_RETURN_IF_ERROR(
      watch->Add(made->stream_.get(), SocketWatch::Calls::kAlways, made.get(), &made->watched_));
  made->watch_ = std::move(watch);
  *channel = std::move(made);
  return Status::OK();
}

SocketChannel::~SocketChannel() {
  stream_.Shutdown();
  if (watch_ != nullptr) watch_->Remove(watched_);
  const port::MutexLock lock(mutex_);
  assert(waiters_.empty());
}

bool SocketChannel::failed() {
  const port::MutexLock lock(mutex_);
  return !failure_.ok();
}

Status SocketChannel::Call(Method method, const Slice& request, std::string* reply,
                           Deadline deadline) {
  Waiter waiter(mutex_);
  uint64_t call = 0;
  {
    const port::MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    call = next_call_++;
    waiters_.emplace(call, &waiter);
  }
  // Nothing is thrown while the waiter is among the others.
  Status status = WithinMemory([&]() -> Status {
    port::AllocationPoint("call");
    std::string frame;
    DLSM_RETURN_IF_ERROR(
        MakeFrame(FrameType::kRequest, method, Status::Code::kOk, call, request, &frame));
    return Send(std::move(frame), deadline);
  });

  const port::MutexLock lock(mutex_);
  if (status.ok()) status = AwaitReply(&waiter, deadline);
  waiters_.erase(call);
  waiter.status.PermitUncheckedError();  // Of a connection that failed when this call had already.
  if (status.ok()) *reply = std::move(waiter.reply);
  return status;
}

Status SocketChannel::AwaitTurn(Deadline deadline) {
  while (sending_ && failure_.ok()) {
    if (!turn_.WaitUntil(deadline.time_point()) && sending_) {
      return Status::TimedOut(fmt::format("memory node {} takes no more requests", where_));
    }
  }
  return failure_;
}

Status SocketChannel::Send(std::string frame, Deadline deadline) {
  {
    const port::MutexLock lock(mutex_);
    DLSM_RETURN_IF_ERROR(AwaitTurn(deadline));
    sending_ = true;
  }
  const Status sent = WithinMemory([&]() -> Status {
    DLSM_RETURN_IF_ERROR(seals_.sent->Append(&frame));
    return SendAll(stream_, frame, deadline);
  });
  if (!sent.ok()) {
    // Part of a frame may be under way: nothing can follow it.
    Fail(sent);
    stream_.Shutdown();
  }
  const port::MutexLock lock(mutex_);
  sending_ = false;
  turn_.Signal();
  return sent.IsTimedOut() ? sent : failure_;
}

Status SocketChannel::AwaitReply(Waiter* waiter, Deadline deadline) try {
  while (!waiter->done) {
    const bool woken = waiter->wakeup.WaitUntil(deadline.time_point());
    if (!woken && !waiter->done && deadline.Passed()) {
      return Status::TimedOut(fmt::format(
          "memory node {} did not answer in time; it may be overloaded or unreachable", where_));
    }
  }
  return waiter->status;
} catch (const std::bad_alloc&) {
  return Status::TimedOut("a memory node did not answer in time");
}

// Of a frame that was read in part nothing can be made but the end of the connection.
SocketWatch::Source::Outcome SocketChannel::Ready() noexcept {
  Outcome outcome = Outcome::kMore;
  const Status received = WithinMemory([&] {
    port::AllocationPoint("reply");
    return ReceiveSome(&outcome);
  });
  if (received.ok()) return outcome;
  Fail(received);
  return Outcome::kEnded;
}

// So many pieces at most: others' answers come meanwhile.
Status SocketChannel::ReceiveSome(Outcome* outcome) {
  constexpr int kPiecesMax = 16;
  for (int piece = 0; piece < kPiecesMax; ++piece) {
    size_t bytes = 0;
    char* to = assembler_.Space(&bytes);
    iovec part{to, bytes};
    size_t moved = 0;
    switch (stream_.Receive(&part, 1, &moved)) {
      case SocketOutcome::kMoved:
        DLSM_RETURN_IF_ERROR(assembler_.Filled(moved));
        if (assembler_.complete()) DLSM_RETURN_IF_ERROR(DeliverComplete());
        break;
      case SocketOutcome::kBlocked:
        *outcome = Outcome::kWait;
        return Status::OK();
      case SocketOutcome::kEnded:
        return Status::IOError("it closed the connection; is Server still running there?");
      case SocketOutcome::kFailed:
        return Status::IOError(stream_.Failure(), "is its network up?");
    }
  }
  return Status::OK();
}

Status SocketChannel::DeliverComplete() {
  if (assembler_.header().type != FrameType::kReply) {
    return Status::Corruption("it sent a request where a reply belongs");
  }
  const FrameHeader header = assembler_.header();
  Deliver(header, assembler_.TakePayload());
  return Status::OK();
}

void SocketChannel::Deliver(const FrameHeader& header, std::string payload) {
  const port::MutexLock lock(mutex_);
  const auto found = waiters_.find(header.call);
  if (found == waiters_.end()) return;  // Its caller gave up.
  Waiter& waiter = *found->second;
  waiter.done = true;
  waiter.status = Status::FromCode(header.code, payload);
  waiter.reply = std::move(payload);
  waiter.wakeup.Signal();
}

void SocketChannel::Fail(const Status& why) noexcept {
  Status failure = WithinMemory([&] {
    return Status::IOError(fmt::format("connection to memory node {} failed: {}", where_,
                                       why.message().ToStringView()));
  });
  const port::MutexLock lock(mutex_);
  failure.PermitUncheckedError();
  if (!failure_.ok()) return;
  failure_ = std::move(failure);
  Log().Debug("{}", failure_.message().ToStringView());
  for (const auto& [call, waiter] : waiters_) {
    if (waiter->done) continue;
    waiter->done = true;
    waiter->status = failure_;
    waiter->wakeup.Signal();
  }
  turn_.SignalAll();
  if (ended_) ended_();
}

}  // namespace dlsm
