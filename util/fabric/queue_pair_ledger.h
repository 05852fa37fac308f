// The books that every queue pair keeps in the same way, so that the wire cost of an operation does
// not depend on the fabric it ran over.
//
//   post    1 work request and its bytes; an atomic moves 8 bytes each way
//   ring    1 doorbell, if anything was posted since the doorbell before
//   wait    1 round trip, if a request up to the ticket had not been waited for
//
// Doorbells and round trips count for the purpose of the request posted last.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "port/mutex.h"
#include "util/fabric/fabric.h"
#include "util/fabric/wire_cost.h"

namespace dlsm {

// The costs of all queue pairs of one connection, those destroyed included. Thread-safe.
class WireCostRegistry {
 public:
  void Add(const WireCost* cost) LOCKS_EXCLUDED(mutex_);
  // Keeps what `cost` counted; it is not looked at any more.
  void Retire(const WireCost* cost) LOCKS_EXCLUDED(mutex_);
  WireTotals Totals() const LOCKS_EXCLUDED(mutex_);

 private:
  mutable port::Mutex mutex_;
  std::vector<const WireCost*> live_ GUARDED_BY(mutex_);
  WireTotals retired_ GUARDED_BY(mutex_);
};

// Belongs to the thread of its queue pair. Tickets count from 1, so Ticket{} is always complete.
class QueuePairLedger {
 public:
  explicit QueuePairLedger(WireCostRegistry& registry) : registry_(registry) {
    registry_.Add(&cost_);
  }
  ~QueuePairLedger() { registry_.Retire(&cost_); }
  QueuePairLedger(const QueuePairLedger&) = delete;
  QueuePairLedger& operator=(const QueuePairLedger&) = delete;

  Ticket PostRead(uint64_t bytes, Purpose purpose) {
    cost_.AddReadBytes(purpose, bytes);
    return Post(purpose);
  }
  Ticket PostWrite(uint64_t bytes, Purpose purpose) {
    cost_.AddWriteBytes(purpose, bytes);
    return Post(purpose);
  }
  Ticket PostAtomic(Purpose purpose) {
    cost_.AddReadBytes(purpose, kAtomicBytes);
    cost_.AddWriteBytes(purpose, kAtomicBytes);
    return Post(purpose);
  }

  void Ring() {
    if (rung_ == posted_) return;
    rung_ = posted_;
    cost_.AddDoorbell(last_purpose_);
  }

  void Wait(Ticket ticket) {
    const auto number = static_cast<uint64_t>(ticket);
    assert(number <= posted_);
    if (number <= waited_) return;
    waited_ = number;
    cost_.AddRoundTrip(last_purpose_);
  }

  void DirectRead(uint64_t bytes, Purpose purpose) {
    cost_.AddReadBytes(purpose, bytes);
    Direct(purpose);
  }
  void DirectWrite(uint64_t bytes, Purpose purpose) {
    cost_.AddWriteBytes(purpose, bytes);
    Direct(purpose);
  }

  static constexpr uint64_t kAtomicBytes = 8;

 private:
  Ticket Post(Purpose purpose) {
    cost_.AddWorkRequest(purpose);
    last_purpose_ = purpose;
    return Ticket{++posted_};
  }
  void Direct(Purpose purpose) {
    cost_.AddWorkRequest(purpose);
    cost_.AddDoorbell(purpose);
    cost_.AddRoundTrip(purpose);
  }

  WireCostRegistry& registry_;
  WireCost cost_;
  Purpose last_purpose_ = Purpose::kRead;
  uint64_t posted_ = 0;
  uint64_t rung_ = 0;
  uint64_t waited_ = 0;
};

}  // namespace dlsm
