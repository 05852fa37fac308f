// How long commands took: of each command a histogram, which many threads add to.
//
// A thread adds to a stripe of its own as long as there are not more threads than stripes, so its
// counters stay in its cache. A reader adds the stripes up.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "db/serve/command_numbers.h"
#include "port/cpu.h"
#include "util/thread_number.h"

namespace dlsm::serve {

// Thread-safe.
class CommandLatency {
 public:
  // Bucket i has what took less than 2^i microseconds, but not less than half of that; the last one
  // also has all that took longer: more than half an hour.
  static constexpr size_t kBuckets = 32;
  static constexpr uint64_t BucketEndMicros(size_t bucket) { return uint64_t{1} << bucket; }

  struct Histogram {
    uint64_t calls = 0;
    uint64_t nanos = 0;  // Of all calls together.
    std::array<uint64_t, kBuckets> buckets{};
  };

  CommandLatency() : stripes_(std::make_unique<Stripe[]>(kStripes)) {}

  // `command`: Command::number. All orders are relaxed: a reader wants recent numbers, and does not
  // conclude anything about other memory from them.
  void Add(size_t command, uint64_t nanos) {
    constexpr uint64_t kNanosPerMicro = 1000;
    const auto bucket = static_cast<size_t>(std::bit_width(nanos / kNanosPerMicro));
    Counters& counters = stripes_[ThreadNumber::Current() % kStripes].commands[command];
    counters.nanos.fetch_add(nanos, std::memory_order_relaxed);
    counters.buckets[std::min(bucket, kBuckets - 1)].fetch_add(1, std::memory_order_relaxed);
  }

  // Calls that are added meanwhile are in it or are not.
  Histogram Of(size_t command) const {
    Histogram sum;
    for (size_t i = 0; i < kStripes; ++i) {
      const Counters& counters = stripes_[i].commands[command];
      sum.nanos += counters.nanos.load(std::memory_order_relaxed);
      for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
        const uint64_t calls = counters.buckets[bucket].load(std::memory_order_relaxed);
        sum.buckets[bucket] += calls;
        sum.calls += calls;
      }
    }
    return sum;
  }

  // Calls that are added meanwhile may be forgotten in part.
  void Clear() {
    for (size_t i = 0; i < kStripes; ++i) {
      for (Counters& counters : stripes_[i].commands) {
        counters.nanos.store(0, std::memory_order_relaxed);
        for (std::atomic<uint64_t>& calls : counters.buckets) {
          calls.store(0, std::memory_order_relaxed);
        }
      }
    }
  }

 private:
  static constexpr size_t kStripes = 8;

  struct Counters {
    std::atomic<uint64_t> nanos{0};
    std::array<std::atomic<uint64_t>, kBuckets> buckets{};
  };
  struct alignas(port::kCacheLineBytes) Stripe {
    std::array<Counters, kCommandNumbers> commands;
  };

  const std::unique_ptr<Stripe[]> stripes_;
};

}  // namespace dlsm::serve
