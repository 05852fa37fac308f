#include "util/fabric/decorators/simulated_fabric.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "port/clock.h"
#include "port/cpu.h"
#include "util/fabric/queue_pair_ledger.h"
#include "util/fabric/ring_queue.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Clock = Deadline::Clock;
using TimePoint = Clock::time_point;
using std::chrono::nanoseconds;

// Sleeps end late by about this much; the rest of a wait is spun.
constexpr std::chrono::microseconds kSleepError{100};

void PassTimeUntil(TimePoint when) {
  if (when - Clock::now() > 2 * kSleepError) port::SleepUntil(when - kSleepError);
  while (Clock::now() < when) port::CpuRelax();
}

// Thread-safe.
class Link {
 public:
  explicit Link(const SimulatedNetwork& network)
      : rtt_(network.rtt_ns),
        ns_per_byte_(network.gbit_per_second > 0 ? 8 / network.gbit_per_second : 0) {}

  // When a chain of `bytes` whose doorbell rings now completes.
  TimePoint Ring(uint64_t bytes) {
    const auto wire = nanoseconds(static_cast<int64_t>(static_cast<double>(bytes) * ns_per_byte_));
    const nanoseconds now = Clock::now().time_since_epoch();
    // Relaxed: the link orders nothing but itself.
    int64_t free = free_ns_.load(std::memory_order_relaxed);
    nanoseconds passed;
    do {
      passed = std::max(now, nanoseconds(free)) + wire;
    } while (!free_ns_.compare_exchange_weak(free, passed.count(), std::memory_order_relaxed));
    return TimePoint(std::chrono::duration_cast<Clock::duration>(passed + rtt_));
  }

 private:
  const nanoseconds rtt_;
  const double ns_per_byte_;
  std::atomic<int64_t> free_ns_{0};  // When all bytes handed over so far have passed.
};

class SimulatedQueuePair : public QueuePair {
 public:
  SimulatedQueuePair(Link& link, std::unique_ptr<QueuePair> inner)
      : link_(link), inner_(std::move(inner)) {}

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    DLSM_RETURN_IF_ERROR(inner_->PostRead(from, to, purpose, ticket));
    return Posted(*ticket, from.bytes);
  }
  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    DLSM_RETURN_IF_ERROR(inner_->PostWrite(from, to, purpose, ticket));
    return Posted(*ticket, to.bytes);
  }
  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    DLSM_RETURN_IF_ERROR(
        inner_->PostCompareAndSwap(word, expected, desired, prior, purpose, ticket));
    return Posted(*ticket, 2 * QueuePairLedger::kAtomicBytes);
  }
  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    DLSM_RETURN_IF_ERROR(inner_->PostFetchAdd(word, addend, prior, purpose, ticket));
    return Posted(*ticket, 2 * QueuePairLedger::kAtomicBytes);
  }

  Status Ring() override {
    DLSM_RETURN_IF_ERROR(error_);
    if (chain_posted_) {
      chains_.push_back(Chain{last_posted_, link_.Ring(chain_bytes_)});
      chain_posted_ = false;
      chain_bytes_ = 0;
    }
    return inner_->Ring();
  }

  Status Wait(Ticket ticket, Deadline deadline) override {
    DLSM_RETURN_IF_ERROR(Ring());
    DLSM_RETURN_IF_ERROR(inner_->Wait(ticket, deadline));
    const TimePoint completion = Completion(ticket);
    if (completion > deadline.time_point()) {
      PassTimeUntil(deadline.time_point());
      error_ = Status::TimedOut("the simulated network was too slow for this deadline");
      inner_.reset();  // Ends what is still under way.
      return error_;
    }
    PassTimeUntil(completion);
    return Status::OK();
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
  // Everything that one doorbell handed over, up to the request `last`.
  struct Chain {
    Ticket last{};
    TimePoint completion;
  };

  Status Posted(Ticket ticket, uint64_t bytes) {
    chain_posted_ = true;
    last_posted_ = ticket;
    chain_bytes_ += bytes;
    return Status::OK();
  }

  // When the chain that holds `ticket` completes. A ticket of a chain that is already forgotten
  // gets the past; completions ascend, so forgetting the chains before `ticket`'s loses nothing.
  TimePoint Completion(Ticket ticket) {
    while (!chains_.empty() && chains_.front().last < ticket) {
      forgotten_ = chains_.front().last;
      chains_.pop_front();
    }
    if (chains_.empty() || ticket <= forgotten_) return TimePoint{};
    return chains_.front().completion;
  }

  Link& link_;
  std::unique_ptr<QueuePair> inner_;  // Null once this queue pair has timed out.
  Status error_;
  RingQueue<Chain> chains_;
  Ticket forgotten_{};  // The last ticket of the chains that were dropped from the front.
  bool chain_posted_ = false;
  Ticket last_posted_{};
  uint64_t chain_bytes_ = 0;
};

class SimulatedConnection : public FabricConnection {
 public:
  SimulatedConnection(const SimulatedNetwork& network, std::unique_ptr<FabricConnection> inner)
      : inner_(std::move(inner)), link_(network) {
    inner_->CopyAside(network.card_wakes_for_bytes);
  }

  FabricKind kind() const override { return inner_->kind(); }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override {
    std::unique_ptr<QueuePair> inner;
    DLSM_RETURN_IF_ERROR(inner_->NewQueuePair(deadline, &inner));
    *queue_pair = std::make_unique<SimulatedQueuePair>(link_, std::move(inner));
    return Status::OK();
  }
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return inner_->NewBuffer(bytes, buffer);
  }
  bool MayStillLand() const override { return inner_->MayStillLand(); }
  WireTotals Totals() const override { return inner_->Totals(); }
  WaitCounts Waits() const override { return inner_->Waits(); }
  int numa_node() const override { return inner_->numa_node(); }
  std::string Describe() const override { return inner_->Describe(); }

 private:
  const std::unique_ptr<FabricConnection> inner_;
  Link link_;
};

}  // namespace

std::unique_ptr<FabricConnection> SimulateNetwork(const SimulatedNetwork& network,
                                                  std::unique_ptr<FabricConnection> inner) {
  return std::make_unique<SimulatedConnection>(network, std::move(inner));
}

}  // namespace dlsm
