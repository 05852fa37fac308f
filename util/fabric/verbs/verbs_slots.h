// The places of a connection for queue pairs that a thread has to itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace dlsm {

// Thread-safe. Outlives its slots.
class VerbsSlots {
 public:
  struct Return {
    void operator()(std::atomic<uint32_t>* taken) const {
      taken->fetch_sub(1, std::memory_order_relaxed);  // A count orders nothing.
    }
  };
  // Given back when destroyed; null: none.
  using Slot = std::unique_ptr<std::atomic<uint32_t>, Return>;

  // Null if `most` are taken.
  Slot Take(uint32_t most) {
    uint32_t taken = taken_.load(std::memory_order_relaxed);
    while (taken < most) {
      if (taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed)) {
        return Slot(&taken_);
      }
    }
    return nullptr;
  }

 private:
  std::atomic<uint32_t> taken_{0};
};

}  // namespace dlsm
