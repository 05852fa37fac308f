#include "util/fabric/decorators/faulty_fabric.h"

#include <utility>

#include "port/clock.h"
#include "util/fabric/decorators/mangle.h"
#include "util/fabric/ring_queue.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Clock = Deadline::Clock;

// Forwards requests until one is to fail; that one and the later ones are given tickets and go
// nowhere, as on a device whose queue pair has gone into the error state.
class FaultyQueuePair : public QueuePair {
 public:
  FaultyQueuePair(FaultInjector& faults, std::unique_ptr<QueuePair> inner)
      : faults_(faults), inner_(std::move(inner)) {}

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const Fault fault = faults_.Decide(purpose);
    if (!broken_ && !Breaks(fault.kind)) {
      DLSM_RETURN_IF_ERROR(inner_->PostRead(from, to, purpose, ticket));
    }
    return Posted(fault, to, ticket);
  }

  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const Fault fault = faults_.Decide(purpose);
    if (!broken_ && !Breaks(fault.kind)) {
      DLSM_RETURN_IF_ERROR(inner_->PostWrite(from, to, purpose, ticket));
    } else if (!broken_ && fault.kind == FaultKind::kHalfWrite && to.bytes > 0 &&
               from.bytes == to.bytes) {
      return PostHalf(fault, from, to, purpose, ticket);
    }
    return Posted(fault, LocalSpan{}, ticket);
  }

  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const Fault fault = faults_.Decide(purpose);
    if (!broken_ && !Breaks(fault.kind)) {
      DLSM_RETURN_IF_ERROR(
          inner_->PostCompareAndSwap(word, expected, desired, prior, purpose, ticket));
    }
    return Posted(fault, Answer(fault, prior), ticket);
  }

  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const Fault fault = faults_.Decide(purpose);
    if (!broken_ && !Breaks(fault.kind)) {
      DLSM_RETURN_IF_ERROR(inner_->PostFetchAdd(word, addend, prior, purpose, ticket));
    }
    return Posted(fault, Answer(fault, prior), ticket);
  }

  Status Ring() override {
    DLSM_RETURN_IF_ERROR(error_);
    return inner_->Ring();
  }

  Status Wait(Ticket ticket, Deadline deadline) override {
    DLSM_RETURN_IF_ERROR(error_);
    const bool breaks = broken_ && broken_at_ <= ticket;
    Status status = inner_->Wait(breaks || ticket > forwarded_ ? forwarded_ : ticket, deadline);
    if (!status.ok()) return Close(std::move(status));
    status = SufferEffects(ticket, deadline);
    if (!status.ok()) return Close(std::move(status));
    if (!breaks) return Status::OK();
    if (!dropped_) return Close(Status::IOError("an injected fault failed this transfer"));
    port::SleepUntil(deadline.time_point());
    return Close(Status::TimedOut("an injected fault lost this transfer"));
  }

  char* Direct(const RemoteSpan& /*span*/) override { return nullptr; }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    if (inner_ != nullptr) inner_->CountDirectRead(bytes, purpose);
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    if (inner_ != nullptr) inner_->CountDirectWrite(bytes, purpose);
  }
  size_t worth_ringing() const override {
    return inner_ == nullptr ? kReadsWorthRinging : inner_->worth_ringing();
  }
  bool closed() const override { return !error_.ok() || inner_->closed(); }

 private:
  // What Wait() still has to do to a request that was forwarded.
  struct Effect {
    Ticket ticket{};
    Fault fault;
    LocalSpan data;  // Of a read.
    Clock::time_point not_before;
  };

  static bool Breaks(FaultKind kind) {
    return kind == FaultKind::kFail || kind == FaultKind::kHalfWrite ||
           kind == FaultKind::kDisconnect || kind == FaultKind::kDrop;
  }

  // A flipped bit is one of data; a memory node may also say anything of a word.
  static LocalSpan Answer(const Fault& fault, uint64_t* prior) {
    if (fault.kind != FaultKind::kMangle) return LocalSpan{};
    return LocalSpan{reinterpret_cast<char*>(prior), sizeof(*prior), 0};
  }

  // The inner fabric has given *ticket if it got the request.
  Status Posted(const Fault& fault, const LocalSpan& data, Ticket* ticket) {
    if (broken_) {
      *ticket = NextTicket();
      return Status::OK();
    }
    if (fault.kind == FaultKind::kDisconnect) {
      return Close(Status::IOError("an injected fault closed this queue pair"));
    }
    if (Breaks(fault.kind)) {
      *ticket = NextTicket();
      broken_at_ = *ticket;
      broken_ = true;
      dropped_ = fault.kind == FaultKind::kDrop;
      return Status::OK();
    }
    last_ = forwarded_ = *ticket;
    if (fault.kind != FaultKind::kNone) {
      effects_.push_back(Effect{*ticket, fault, data, Clock::now() + fault.delay});
    }
    return Status::OK();
  }

  Status PostHalf(const Fault& fault, const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                  Ticket* ticket) {
    const uint64_t part = fault.draw % to.bytes;
    DLSM_RETURN_IF_ERROR(inner_->PostWrite(from.Sub(0, part), to.Sub(0, part), purpose, ticket));
    last_ = forwarded_ = broken_at_ = *ticket;
    broken_ = true;
    return Status::OK();
  }

  Status SufferEffects(Ticket until, Deadline deadline) {
    while (!effects_.empty() && effects_.front().ticket <= until) {
      const Effect effect = effects_.front();
      effects_.pop_front();
      if (effect.fault.kind == FaultKind::kCorrupt) FlipBit(effect);
      if (effect.fault.kind == FaultKind::kMangle) {
        MangleBytes(effect.data.data, effect.data.bytes, effect.fault.draw);
      }
      if (effect.fault.kind != FaultKind::kDelay) continue;
      if (effect.not_before > deadline.time_point()) {
        port::SleepUntil(deadline.time_point());
        return Status::TimedOut("an injected fault delayed this transfer beyond its deadline");
      }
      port::SleepUntil(effect.not_before);
    }
    return Status::OK();
  }

  static void FlipBit(const Effect& effect) {
    if (effect.data.bytes == 0) return;
    char& byte = effect.data.data[(effect.fault.draw >> 3) % effect.data.bytes];
    byte = static_cast<char>(byte ^ (1 << (effect.fault.draw & 7)));
  }

  Ticket NextTicket() {
    last_ = Ticket{static_cast<uint64_t>(last_) + 1};
    return last_;
  }

  // The inner queue pair goes too: that ends what is still under way.
  Status Close(Status why) {
    error_ = std::move(why);
    inner_.reset();
    return error_;
  }

  FaultInjector& faults_;
  std::unique_ptr<QueuePair> inner_;  // Null once closed here.
  Status error_;
  Ticket last_{};       // The last ticket given out.
  Ticket forwarded_{};  // The last one that the inner queue pair knows.
  bool broken_ = false;
  Ticket broken_at_{};  // The first request that fails.
  bool dropped_ = false;
  RingQueue<Effect> effects_;
};

class FaultyConnection : public FabricConnection {
 public:
  FaultyConnection(std::shared_ptr<FaultInjector> faults, std::unique_ptr<FabricConnection> inner)
      : faults_(std::move(faults)), inner_(std::move(inner)) {}

  FabricKind kind() const override { return inner_->kind(); }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override {
    DLSM_RETURN_IF_ERROR(Refusal(FaultSite::kQueuePair, "to make this queue pair"));
    std::unique_ptr<QueuePair> inner;
    DLSM_RETURN_IF_ERROR(inner_->NewQueuePair(deadline, &inner));
    *queue_pair = std::make_unique<FaultyQueuePair>(*faults_, std::move(inner));
    return Status::OK();
  }
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    DLSM_RETURN_IF_ERROR(Refusal(FaultSite::kBuffer, "to register this buffer"));
    RegisteredBuffer inner;
    DLSM_RETURN_IF_ERROR(inner_->NewBuffer(bytes, &inner));
    const LocalSpan span = inner.span();
    faults_->CountBuffer(1);
    std::shared_ptr<char[]> counted(span.data, [faults = faults_, inner = std::move(inner)](char*) {
      faults->CountBuffer(-1);
    });
    *buffer = RegisteredBuffer(std::move(counted), span.bytes, span.local_key);
    return Status::OK();
  }
  bool MayStillLand() const override { return inner_->MayStillLand(); }
  WireTotals Totals() const override { return inner_->Totals(); }
  WaitCounts Waits() const override { return inner_->Waits(); }
  int numa_node() const override { return inner_->numa_node(); }
  std::string Describe() const override { return inner_->Describe(); }

 private:
  Status Refusal(FaultSite site, const char* what) {
    const Fault fault = faults_->Decide(site);
    if (fault.kind == FaultKind::kNone || fault.kind == FaultKind::kDelay) return Status::OK();
    return Status::IOError("an injected fault refused", what);
  }

  const std::shared_ptr<FaultInjector> faults_;
  const std::unique_ptr<FabricConnection> inner_;
};

}  // namespace

std::unique_ptr<FabricConnection> InjectFaults(std::shared_ptr<FaultInjector> faults,
                                               std::unique_ptr<FabricConnection> inner) {
  return std::make_unique<FaultyConnection>(std::move(faults), std::move(inner));
}

}  // namespace dlsm
