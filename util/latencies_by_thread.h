// The latencies of a Statistics, by thread and public call. A thread makes the counts of a call
// when it first makes that call, so that threads and calls that are not used cost nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "dLSM/statistics.h"
#include "port/mutex.h"
#include "util/latency_counts.h"
#include "util/thread_number.h"

namespace dlsm {

// Thread-safe.
class LatenciesByThread {
 public:
  static constexpr auto kTypes = static_cast<size_t>(HistogramType::kHistogramCount);

  // std::bad_alloc, or nothing is added, if there is no memory for the first call of a thread.
  void Add(HistogramType type, uint64_t nanos) {
    LatencyCounts* const mine = threads_.Local().Mine(static_cast<size_t>(type));
    if (mine != nullptr) [[likely]]
      mine->Add(nanos);
  }
  HistogramData Get(HistogramType type) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    LatencySums sums = Sum(static_cast<size_t>(type));
    sums.Subtract(at_reset_[static_cast<size_t>(type)]);
    return sums.Data();
  }
  void Reset() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    for (size_t i = 0; i < kTypes; ++i) at_reset_[i] = Sum(i);
  }

 private:
  class OfThread {
   public:
    OfThread() = default;
    OfThread(const OfThread&) = delete;
    OfThread& operator=(const OfThread&) = delete;
    ~OfThread() {
      for (auto& counts : by_type_) delete counts.load(std::memory_order_relaxed);
    }

    // By its thread. Null if there is no memory.
    LatencyCounts* Mine(size_t type) {
      LatencyCounts* counts = by_type_[type].load(std::memory_order_relaxed);
      if (counts != nullptr) [[likely]]
        return counts;
      counts = new (std::nothrow) LatencyCounts;
      // Pairs with the acquire in AddTo(): publishes the zeros.
      by_type_[type].store(counts, std::memory_order_release);
      return counts;
    }
    void AddTo(size_t type, LatencySums* sums) const {
      const LatencyCounts* const counts = by_type_[type].load(std::memory_order_acquire);
      if (counts != nullptr) counts->AddTo(sums);
    }

   private:
    std::array<std::atomic<LatencyCounts*>, kTypes> by_type_{};
  };

  LatencySums Sum(size_t type) {
    LatencySums sums;
    threads_.ForEach([type, &sums](const OfThread& thread) {
      thread.AddTo(type, &sums);
      return true;
    });
    return sums;
  }

  PerThread<OfThread> threads_;
  port::Mutex mutex_;
  std::array<LatencySums, kTypes> at_reset_ GUARDED_BY(mutex_){};
};

}  // namespace dlsm
