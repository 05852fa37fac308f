// What the queue pairs of a connection had the device do. The fabric's own books (WireCost) count
// what callers asked for; one of their requests can be several of these, or none.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "port/mutex.h"

namespace dlsm {

struct VerbsCounts {
  uint64_t work_requests = 0;
  uint64_t doorbells = 0;     // Calls of ibv_post_send().
  uint64_t completions = 0;   // Found in the completion queue.
  uint64_t sleeps = 0;        // Waits for a completion event.
  uint64_t copied_bytes = 0;  // Through registered memory, because the caller's is not.
};

// What a device has reported by itself.
struct VerbsEventCounts {
  uint64_t device_failures = 0;
  uint64_t queue_pair_failures = 0;  // Their completion queues' included.
  uint64_t port_downs = 0;
  uint64_t port_ups = 0;
  uint64_t address_changes = 0;  // GID, LID.
  uint64_t others = 0;
};

// "2 port downs, 1 port ups"; empty if there was nothing.
std::string DescribeEvents(const VerbsEventCounts& counts);

class VerbsCounterRegistry;

// Of one queue pair: its thread adds, any may read.
class VerbsCounters {
 public:
  explicit VerbsCounters(VerbsCounterRegistry& registry);
  ~VerbsCounters();
  VerbsCounters(const VerbsCounters&) = delete;
  VerbsCounters& operator=(const VerbsCounters&) = delete;

  // One writer, so a load and a store will do. Relaxed: counts order nothing.
  using Counter = std::atomic<uint64_t>;
  static void Add(Counter& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void AddTo(VerbsCounts* sum) const;

  Counter work_requests{0}, doorbells{0}, completions{0}, sleeps{0}, copied_bytes{0};

 private:
  VerbsCounterRegistry& registry_;
};

// Thread-safe. Outlives its counters.
class VerbsCounterRegistry {
 public:
  // Of all queue pairs, those destroyed included.
  VerbsCounts Sum() const LOCKS_EXCLUDED(mutex_);
  size_t live() const LOCKS_EXCLUDED(mutex_);

 private:
  friend class VerbsCounters;
  mutable port::Mutex mutex_;
  std::vector<const VerbsCounters*> live_ GUARDED_BY(mutex_);
  VerbsCounts retired_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
