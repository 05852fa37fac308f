#include "util/fabric/verbs/verbs_shared.h"

#include <chrono>
#include <utility>

#include "port/clock.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What a thread leaves under way when it goes is waited for so long; then the queue pair closes.
constexpr std::chrono::seconds kLastWait{1};
// What a thread that waits leaves to the others before it polls again.
constexpr std::chrono::microseconds kTurn{20};

class SharedQueuePair : public QueuePair {
 public:
  explicit SharedQueuePair(std::shared_ptr<VerbsSharedCore> core) : core_(std::move(core)) {}
  ~SharedQueuePair() override {
    if (last_ == waited_) return;
    // Its buffers must be free when this is gone, so the answer does not matter: either all has
    // completed, or the queue pair is closed.
    WaitInTurns(last_, Deadline::In(kLastWait)).PermitUncheckedError();
  }

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    return Posted(ticket, core_->Do([&](QueuePair& inner) {
      return inner.PostRead(from, to, purpose, ticket);
    }));
  }
  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    return Posted(ticket, core_->Do([&](QueuePair& inner) {
      return inner.PostWrite(from, to, purpose, ticket);
    }));
  }
  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    return Posted(ticket, core_->Do([&](QueuePair& inner) {
      return inner.PostCompareAndSwap(word, expected, desired, prior, purpose, ticket);
    }));
  }
  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override {
    return Posted(ticket, core_->Do([&](QueuePair& inner) {
      return inner.PostFetchAdd(word, addend, prior, purpose, ticket);
    }));
  }
  Status Ring() override {
    return core_->Do([](QueuePair& inner) { return inner.Ring(); });
  }
  Status Wait(Ticket ticket, Deadline deadline) override {
    Status status = WaitInTurns(ticket, deadline);
    if (ticket > waited_) waited_ = ticket;
    return status;
  }
  char* Direct(const RemoteSpan& /*span*/) override { return nullptr; }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    core_->Do([&](QueuePair& inner) { inner.CountDirectRead(bytes, purpose); });
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    core_->Do([&](QueuePair& inner) { inner.CountDirectWrite(bytes, purpose); });
  }
  size_t worth_ringing() const override { return VerbsQueuePair::kWorthRinging; }
  bool closed() const override { return core_->closed(); }

 private:
  Status WaitInTurns(Ticket ticket, Deadline deadline) {
    DLSM_RETURN_IF_ERROR(core_->Do([&](VerbsQueuePair& inner) { return inner.BeginWait(ticket); }));
    while (true) {
      bool done = false;
      DLSM_RETURN_IF_ERROR(
          core_->Do([&](VerbsQueuePair& inner) { return inner.Advance(ticket, &done); }));
      if (done) return Status::OK();
      if (deadline.Passed()) break;
      port::SleepFor(kTurn);
    }
    return core_->Do([&](QueuePair& inner) { return inner.Wait(ticket, deadline); });
  }
  Status Posted(const Ticket* ticket, Status status) {
    if (status.ok()) last_ = *ticket;
    return status;
  }

  const std::shared_ptr<VerbsSharedCore> core_;
  Ticket last_{};    // Posted.
  Ticket waited_{};  // Waited for.
};

}  // namespace

std::unique_ptr<QueuePair> ShareQueuePair(std::shared_ptr<VerbsSharedCore> core) {
  return std::make_unique<SharedQueuePair>(std::move(core));
}

}  // namespace dlsm
