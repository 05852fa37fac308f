// What a client's calls cost, by method. Bytes are those of requests and replies with their frame
// headers: what tcp carries. The RDMA transports' own headers differ by a few bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "util/rpc/channel/rpc.h"

namespace dlsm {

// Thread-safe. Counts are read one by one: a sum taken beside a call may have half of it.
class CallLedger {
 public:
  void Add(Method method, uint64_t request_bytes) {
    Counters& counters = At(method);
    Add(counters.calls, 1);
    Add(counters.request_bytes, request_bytes);
  }
  void AddReply(Method method, uint64_t reply_bytes) { Add(At(method).reply_bytes, reply_bytes); }
  void AddFailure(Method method) { Add(At(method).failures, 1); }

  CallTotals Totals() const {
    CallTotals totals;
    for (size_t i = 0; i < kMethodCount; ++i) {
      const Counters& counters = counters_[i];
      totals[i] = CallCounts{Get(counters.calls), Get(counters.failures),
                             Get(counters.request_bytes), Get(counters.reply_bytes)};
    }
    return totals;
  }

 private:
  using Counter = std::atomic<uint64_t>;
  struct Counters {
    Counter calls{0}, failures{0}, request_bytes{0}, reply_bytes{0};
  };
  // Relaxed: counts order nothing.
  static void Add(Counter& counter, uint64_t n) { counter.fetch_add(n, std::memory_order_relaxed); }
  static uint64_t Get(const Counter& counter) { return counter.load(std::memory_order_relaxed); }
  // Method 0, which there is not, stands for all that this version does not know.
  Counters& At(Method method) {
    const auto number = static_cast<size_t>(method);
    return counters_[number < kMethodCount ? number : 0];
  }

  std::array<Counters, kMethodCount> counters_;
};

}  // namespace dlsm
