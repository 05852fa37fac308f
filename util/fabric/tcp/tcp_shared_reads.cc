#include "util/fabric/tcp/tcp_shared_reads.h"

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/error_text.h"
#include "port/sync_point.h"
#include "port/thread_name.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kReceivedPerCall = size_t{64} << 10;
// A memory node that has let a call's deadline pass, and has sent nothing for that long, is not
// waited for over this connection any more.
constexpr std::chrono::seconds kSilentMost{1};
// Who has not read for so long is no crowd any more. Each connection forgets its own: whoever still
// reads may do so over another one.
constexpr std::chrono::seconds kCrowdRemembered{1};
// Sent bytes of a queue that is never quite empty are dropped from here on.
constexpr size_t kSentMax = size_t{64} << 10;

}  // namespace

Status TcpSharedReads::Start(TcpStream stream, std::shared_ptr<const TcpPeer> peer,
                             PollGroup& polls, Gauges& gauges,
                             std::shared_ptr<TcpSharedReads>* shared) {
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return CannotOpen("sharing a data connection to " + peer->name, errno);
  return StartingThreads([&] {
    shared->reset(
        new TcpSharedReads(std::move(stream), std::move(peer), polls, gauges, std::move(wake)));
    return Status::OK();
  });
}

TcpSharedReads::TcpSharedReads(TcpStream stream, std::shared_ptr<const TcpPeer> peer,
                               PollGroup& polls, Gauges& gauges, FileDescriptor wake)
    : peer_(std::move(peer)),
      wake_(std::move(wake)),
      gauges_(gauges),
      stream_(std::move(stream)),
      received_(kReceivedPerCall),
      poll_(polls),
      thread_([this] { Serve(); }) {}

TcpSharedReads::~TcpSharedReads() {
  stopping_ = true;
  Wake();
  thread_.join();
}

Status TcpSharedReads::Run(std::span<const Read> reads, Deadline deadline,
                           AdaptivePoll& turns) noexcept {
  Call call{.reads = reads,
            .deadline = deadline,
            .left = reads.size(),
            .flight = flight_.load(std::memory_order_relaxed)};
  Submit(&call);
  Await(&call, turns);
  return std::move(call.status);
}

void TcpSharedReads::Await(Call* call, AdaptivePoll& turns) {
  const auto done = [call] { return call->done.load(std::memory_order_acquire); };
  while (turns.Again()) {
    if (done()) return;
    TakeTurn();
    if (done()) return;
  }
  call->sleeps.store(true, std::memory_order_relaxed);
  port::Bell& bell = flights_[call->flight].bell;
  while (true) {
    const uint32_t heard = bell.Listen();
    if (done()) return;
    bell.Wait(heard);
  }
}

void TcpSharedReads::Submit(Call* call) {
  call->before = submitted_.load(std::memory_order_relaxed);
  while (!submitted_.compare_exchange_weak(call->before, call, std::memory_order_seq_cst,
                                           std::memory_order_relaxed)) {
  }
  if (closed()) [[unlikely]] {
    const port::MutexLock lock(serving_);
    return FailAll();
  }
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) Wake();
}

void TcpSharedReads::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake anyway.
  static_cast<void>(!::write(wake_.get(), &one, sizeof(one)));
}

void TcpSharedReads::Serve() {
  port::SetThreadName("dlsm-reads");
  bool waiting = false;
  while (!stopping_) {
    Progress progress;
    bool ended = false;
    {
      const port::MutexLock lock(serving_);
      ended = !Round(&progress);
      if (ended) {
        Close();
      } else if (!progress.any()) {
        RingUnheard();
      }
    }
    if (waiting && (progress.any() || ended)) {
      poll_.End();
      waiting = false;
    }
    if (ended) return;
    if (progress.any()) {
      // Who was woken may have more to read: what comes of that is sent together.
      if (progress.received) port::Yield();
      continue;
    }
    if (!std::exchange(waiting, true)) poll_.Begin();
    if (!poll_.Again()) Sleep();
  }
  if (waiting) poll_.End();
}

void TcpSharedReads::TakeTurn() {
  if (!serving_.TryLock()) return;
  Progress progress;
  const bool ended = !Round(&progress);
  // For those who sleep: the thread may do so, too, or be about to, and what would have woken it is
  // received, or the deadline that would have is past.
  RingUnheard();
  serving_.Unlock();
  if (ended) Wake();
}

bool TcpSharedReads::Round(Progress* progress) noexcept {
  if (!end_.ok()) return false;
  try {
    TryRound(progress);
  } catch (const std::bad_alloc&) {
    end_ = OutOfTransferMemory();
  }
  return end_.ok();
}

void TcpSharedReads::TryRound(Progress* progress) {
  TakeCalls();
  if (end_.ok()) end_ = SendSome(&progress->sent);
  if (end_.ok()) end_ = ReceiveSome(&progress->received);
  const auto now = Deadline::Clock::now();
  if (progress->received) silent_since_ = now;
  if (end_.ok()) end_ = DropLate(now);
  if (progress->received) UpdateGauges();
  if (now >= CrowdForgottenAt()) gauges_.crowd.store(0, std::memory_order_relaxed);
}

Deadline::Clock::time_point TcpSharedReads::CrowdForgottenAt() const {
  const bool remembered = under_way_ == 0 && gauges_.crowd.load(std::memory_order_relaxed) > 0;
  return remembered ? silent_since_ + kCrowdRemembered : Deadline::Clock::time_point::max();
}

void TcpSharedReads::TakeCalls() {
  // Sequentially consistent, as closed_ and asleep_ are: who sets one of them looks here
  // afterwards.
  if (submitted_.load(std::memory_order_seq_cst) == nullptr) return;
  flight_.store((flight_.load(std::memory_order_relaxed) + 1) % kFlights,
                std::memory_order_relaxed);
  // Turned round in place, so that the one that was submitted first goes first.
  Call* last = submitted_.exchange(nullptr, std::memory_order_seq_cst);
  Call* first = nullptr;
  while (last != nullptr) {
    Call* const before = std::exchange(last->before, first);
    first = std::exchange(last, before);
  }
  if (outstanding_.empty()) silent_since_ = Deadline::Clock::now();
  while (first != nullptr) {
    Call* const next = first->before;  // The call may be gone afterwards.
    Take(first);
    first = next;
  }
}

// One for which there is no memory is the end of the connection, for part of it may be in what is
// sent; so it is for those that come with it.
void TcpSharedReads::Take(Call* call) {
  ++flights_[call->flight].calls;
  most_under_way_ = std::max(most_under_way_, ++under_way_);
  next_deadline_ = std::min(next_deadline_, call->deadline.time_point());
  const size_t outstanding_before = outstanding_.size();
  if (end_.ok()) {
    try {
      port::AllocationPoint("shared reads");
      Append(call);
      return;
    } catch (const std::bad_alloc&) {
      end_ = OutOfTransferMemory();
    }
  }
  call->left = outstanding_.size() - outstanding_before;
  if (call->left == 0) Finish(call, end_);
}

void TcpSharedReads::Append(Call* call) {
  for (const Read& read : call->reads) {
    const size_t at = to_send_.size();
    to_send_.resize(at + TcpRequest::kBytes);
    TcpRequest{TcpOpcode::kRead, ++last_sequence_, read.region, read.offset, read.to.bytes, 0}
        .Encode(to_send_.data() + at);
    outstanding_.push_back(Outstanding{call, read.to.data, read.to.bytes});
  }
}

Status TcpSharedReads::SendSome(bool* sent) {
  while (sent_ < to_send_.size()) {
    iovec part{to_send_.data() + sent_, to_send_.size() - sent_};
    size_t moved = 0;
    const SocketOutcome outcome = stream_.Send(&part, 1, &moved);
    if (outcome == SocketOutcome::kBlocked) {
      if (sent_ >= kSentMax && sent_ >= to_send_.size() / 2) DropSent();
      return Status::OK();
    }
    if (outcome != SocketOutcome::kMoved) return TcpConnectionLost(*peer_, stream_.Failure());
    sent_ += moved;
    *sent = true;
  }
  to_send_.clear();
  sent_ = 0;
  return Status::OK();
}

void TcpSharedReads::DropSent() {
  to_send_.erase(to_send_.begin(), to_send_.begin() + static_cast<ptrdiff_t>(sent_));
  sent_ = 0;
}

Status TcpSharedReads::ReceiveSome(bool* received) {
  while (true) {
    iovec part{received_.data(), received_.size()};
    size_t moved = 0;
    switch (stream_.Receive(&part, 1, &moved)) {
      case SocketOutcome::kMoved:
        break;
      case SocketOutcome::kBlocked:
        return Status::OK();
      case SocketOutcome::kEnded:
        return TcpConnectionLost(*peer_, "it closed the connection");
      case SocketOutcome::kFailed:
        return TcpConnectionLost(*peer_, stream_.Failure());
    }
    *received = true;
    DLSM_RETURN_IF_ERROR(Consume(received_.data(), moved));
    // Under TLS an end that lies behind these bytes is found only by looking again: the socket need
    // not become readable for it.
    if (moved < received_.size() && !stream_.secure()) return Status::OK();
  }
}

Status TcpSharedReads::Consume(const char* from, size_t bytes) {
  const char* const end = from + bytes;
  while (from < end) {
    if (outstanding_.empty()) {
      return Status::Corruption(peer_->name + " answered more on a data connection than was asked");
    }
    const Outstanding& read = outstanding_.front();
    const auto take = [&](size_t wanted, char* to) {
      const size_t taken = std::min(wanted, static_cast<size_t>(end - from));
      if (to != nullptr && taken > 0) std::memcpy(to, from, taken);
      from += taken;
      return taken;
    };
    if (front_received_ < TcpReply::kBytes) {
      front_received_ +=
          take(TcpReply::kBytes - front_received_, front_header_.data() + front_received_);
      if (front_received_ < TcpReply::kBytes) break;
      DLSM_RETURN_IF_ERROR(CheckFront());
    }
    const uint64_t arrived = front_received_ - TcpReply::kBytes;
    front_received_ +=
        take(read.bytes - arrived, read.call == nullptr ? nullptr : read.to + arrived);
    if (front_received_ == TcpReply::kBytes + read.bytes) PopFront();
  }
  return Status::OK();
}

Status TcpSharedReads::CheckFront() {
  TcpReply reply;
  const TcpExpectation expected{TcpOpcode::kRead, front_sequence_, outstanding_.front().bytes};
  return ReadTcpReply(*peer_, expected, front_header_.data(), &reply);
}

void TcpSharedReads::PopFront() {
  Call* const call = outstanding_.front().call;
  outstanding_.pop_front();
  ++front_sequence_;
  front_received_ = 0;
  if (call != nullptr && --call->left == 0) Finish(call, Status::OK());
}

void TcpSharedReads::Finish(Call* call, Status status) {
  Flight& flight = flights_[call->flight];
  if (status.ok()) {
    ++(call->sleeps.load(std::memory_order_relaxed) ? slept_ : polled_);
  }
  --under_way_;
  call->status = std::move(status);
  call->done.store(true, std::memory_order_release);
  // The call may be gone by now.
  if (--flight.calls == 0) {
    // As replies come in order, it mostly is the last that was noted, if it was. Otherwise it stays
    // noted, and there is nothing to hear of it any more.
    if (flight.unheard && unheard_.back() == &flight) unheard_.pop_back();
    return Ring(flight);
  }
  if (std::exchange(flight.unheard, true)) return;
  try {
    unheard_.push_back(&flight);
  } catch (const std::bad_alloc&) {
    Ring(flight);
  }
}

void TcpSharedReads::UpdateGauges() {
  const auto add = [](std::atomic<uint64_t>* gauge, uint32_t* more) {
    if (*more == 0) return;
    gauge->fetch_add(std::exchange(*more, 0), std::memory_order_relaxed);
  };
  add(&gauges_.polled, &polled_);
  add(&gauges_.slept, &slept_);
  const uint32_t crowd = gauges_.crowd.load(std::memory_order_relaxed);
  const uint32_t lately = std::max(most_under_way_, crowd - (crowd + 7) / 8);
  if (lately != crowd) gauges_.crowd.store(lately, std::memory_order_relaxed);
  most_under_way_ = under_way_;
}

void TcpSharedReads::Ring(Flight& flight) {
  flight.unheard = false;
  flight.bell.Ring();
}

void TcpSharedReads::RingUnheard() {
  for (Flight* const flight : unheard_) {
    if (flight->unheard) Ring(*flight);
  }
  unheard_.clear();
}

Status TcpSharedReads::DropLate(Deadline::Clock::time_point now) {
  if (now < next_deadline_) return Status::OK();
  next_deadline_ = Deadline::Clock::time_point::max();
  Call* dropped = nullptr;
  for (size_t i = 0; i < outstanding_.size(); ++i) {
    Outstanding& read = outstanding_[i];
    if (read.call == nullptr) continue;
    // The reads of one call follow each other, and go together: its deadline may move meanwhile.
    if (read.call != dropped) {
      const auto until = read.call->deadline.time_point();
      if (until > now) {
        next_deadline_ = std::min(next_deadline_, until);
        continue;
      }
      if (dropped != nullptr) Finish(dropped, Late());
      dropped = read.call;
    }
    read.call = nullptr;
  }
  if (dropped == nullptr) return Status::OK();
  Finish(dropped, Late());
  return now - silent_since_ < kSilentMost ? Status::OK() : Late();
}

Status TcpSharedReads::Late() const {
  return WithinMemory(
      [this] { return Status::TimedOut(peer_->name + " has not answered in time"); });
}

void TcpSharedReads::FailAll() {
  TakeCalls();
  for (; !outstanding_.empty(); outstanding_.pop_front()) {
    Call* const call = outstanding_.front().call;
    if (call != nullptr && --call->left == 0) Finish(call, end_);
  }
  RingUnheard();
}

void TcpSharedReads::Sleep() {
  asleep_ = true;
  if (submitted_ != nullptr) {
    asleep_ = false;
    return;
  }
  port::SyncPoint("shared reads: to sleep");
  short events = POLLIN;
  Deadline::Clock::time_point until;
  {
    // Who submits from here on wakes this thread. Who took what was submitted before is done now.
    const port::MutexLock lock(serving_);
    if (!to_send_.empty()) events |= POLLOUT;
    // What is under way may arrive in a reader's turn, and that wakes nobody.
    const Deadline::Clock::time_point look_again =
        under_way_ > 0 ? Deadline::Clock::now() + kCrowdRemembered : CrowdForgottenAt();
    until = end_.ok() ? std::min(next_deadline_, look_again) : Deadline::Clock::time_point();
  }
  port::SyncPoint("shared reads: sleeps");
  pollfd watched[] = {{wake_.get(), POLLIN, 0}, {stream_.get(), events, 0}};
  static_cast<void>(PollSockets(watched, Deadline::At(until)));  // Whyever it returns.
  asleep_ = false;
  uint64_t count = 0;
  if (watched[0].revents != 0) static_cast<void>(!::read(wake_.get(), &count, sizeof(count)));
}

void TcpSharedReads::Close() {
  Log().Info("shared data connection closed: {}", end_.message().ToStringView());
  stream_.Close();
  gauges_.crowd.store(0, std::memory_order_relaxed);  // Whoever shares the next one begins anew.
  closed_.store(true, std::memory_order_seq_cst);
  FailAll();
}

}  // namespace dlsm
