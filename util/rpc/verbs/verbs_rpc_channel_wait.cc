// How a caller waits for its reply: polling its place, napping, or asleep until the device or the
// control connection has something to say.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "port/cpu.h"
#include "port/thread.h"
#include "util/rpc/verbs/verbs_rpc_channel.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr microseconds kRingSpin{100};
constexpr milliseconds kLongNapMax{20};

timespec ToTimespec(nanoseconds duration) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  timespec made{};
  made.tv_sec = duration.count() / kPerSecond;
  made.tv_nsec = duration.count() % kPerSecond;
  return made;
}

}  // namespace

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
    port::Yield();
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

bool VerbsRpcChannel::LifeLineEnded() const {
  // Nothing is sent over it any more: any byte is as wrong as its end.
  char byte;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace dlsm
