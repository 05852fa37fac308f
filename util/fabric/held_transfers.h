// Transfers that outlive the call that posted them: read-ahead, write-behind.
//
// Who posts such a transfer may be gone, or on another thread, before it completes. So the memory
// that it uses is shared: by its user, and by the queue pair until the transfer has completed or
// the queue pair is destroyed. A user that loses interest just drops its share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "util/fabric/ring_queue.h"

namespace dlsm {

enum class Ticket : uint64_t;

// To be derived from, with the buffer as a member.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  // True once the bytes have arrived. Pairs with the store in HeldTransfers::Complete(), which
  // publishes them: any thread may ask.
  bool complete() const { return complete_.load(std::memory_order_acquire); }

  // Before it is posted again; by its only user.
  void Reset() { complete_.store(false, std::memory_order_relaxed); }

 private:
  friend class HeldTransfers;
  std::atomic<bool> complete_{false};
};

// A queue pair's share of its transfers; called by the queue pair's thread only.
class HeldTransfers {
 public:
  // Before a transfer is posted that is to be held: it must not be under way when there is no
  // memory to hold it. Throws std::bad_alloc then.
  void MakeRoom() { held_.MakeRoom(); }
  // `transfer` was posted with `ticket`; tickets ascend. Cannot fail after MakeRoom().
  void Hold(Ticket ticket, std::shared_ptr<Transfer> transfer) {
    held_.push_back({ticket, std::move(transfer)});
  }

  size_t size() const { return held_.size(); }

  bool Holds(const Transfer& transfer) const {
    for (size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].transfer.get() == &transfer) return true;
    }
    return false;
  }

  // The newest, among the oldest few, whose user has lost interest: nobody will wait for it.
  // Ticket{} if all of them have users. (A few, so that who has many under way does not pay for
  // each look.)
  Ticket Abandoned() const {
    constexpr size_t kLookedAt = 4;
    for (size_t i = std::min(held_.size(), kLookedAt); i > 0; --i) {
      if (held_[i - 1].transfer.use_count() == 1) return held_[i - 1].ticket;
    }
    return Ticket{};
  }

  // Lets go of all transfers up to `ticket`, for which Wait() has returned OK.
  void Complete(Ticket ticket) {
    while (!held_.empty() && held_.front().ticket <= ticket) {
      const std::shared_ptr<Transfer> done = std::move(held_.front().transfer);
      held_.pop_front();
      done->complete_.store(true, std::memory_order_release);
    }
  }

 private:
  struct Held {
    Ticket ticket{};
    std::shared_ptr<Transfer> transfer;
  };

  // Oldest first. A pipeline has hundreds under way and takes them one by one.
  RingQueue<Held> held_;
};

}  // namespace dlsm
