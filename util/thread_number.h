// Small dense numbers for threads, and storage for each thread found by them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "port/allocation_point.h"
#include "port/cpu.h"

namespace dlsm {

// A number no other living thread has. The number of a thread that has ended is given out again,
// the smallest first, so numbers stay below the largest count of threads there ever were at once
// (but for numbers that there was no memory to keep).
class ThreadNumber {
 public:
  static constexpr uint32_t kMax = 1u << 16;

  static uint32_t Current() {
    if (mine_ == kNone) [[unlikely]]
      return Take();
    return mine_;
  }
  // One more than the largest number ever given out.
  static uint32_t HighWater();

 private:
  class GivesBack;

  static constexpr uint32_t kNone = UINT32_MAX;

  static uint32_t Take();

  // Asked for by every counter: its access model costs no call, in a shared library neither.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit uint32_t mine_ = kNone;
};

// A T for each thread, made when the thread first asks. A thread that gets the number of one that
// has ended also gets its T, as it was left; the hand-over of the number orders the two.
template <typename T>
class PerThread {
 public:
  PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;
  ~PerThread() {
    for (auto& block : blocks_) delete block.load(std::memory_order_relaxed);
  }

  T& Local() {
    const uint32_t number = ThreadNumber::Current();
    // Pairs with the release in NewBlock: publishes the block's construction.
    Block* block = blocks_[number / kBlock].load(std::memory_order_acquire);
    if (block == nullptr) [[unlikely]]
      block = NewBlock(number / kBlock);
    return block->items[number % kBlock].value;
  }

  // Calls visit(T&) for the T of each thread there ever was, until it returns false. Other threads
  // may be using theirs: what `visit` looks at must be atomic.
  template <typename Visit>
  bool ForEach(Visit visit) {
    const uint32_t count = ThreadNumber::HighWater();
    for (uint32_t first = 0; first < count; first += kBlock) {
      Block* block = blocks_[first / kBlock].load(std::memory_order_acquire);
      if (block == nullptr) continue;
      for (uint32_t i = 0; i < kBlock && first + i < count; ++i) {
        if (!visit(block->items[i].value)) return false;
      }
    }
    return true;
  }

 private:
  static constexpr uint32_t kBlock = 64;
  // Two lines: the processor's prefetcher fetches lines in pairs.
  struct alignas(2 * port::kCacheLineBytes) Item {
    T value{};
  };
  struct Block {
    std::array<Item, kBlock> items;
  };

  Block* NewBlock(uint32_t index) {
    port::AllocationPoint("per thread");
    auto fresh = std::make_unique<Block>();
    Block* expected = nullptr;
    if (blocks_[index].compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) {
      return fresh.release();
    }
    return expected;
  }

  std::array<std::atomic<Block*>, ThreadNumber::kMax / kBlock> blocks_{};
};

}  // namespace dlsm
