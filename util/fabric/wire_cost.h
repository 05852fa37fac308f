// What operations cost the network, counted by every fabric for every purpose. These counts do not
// depend on the speed of the machine, so they are a result of their own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dlsm {

// What a transfer is for.
enum class Purpose : uint8_t { kRead = 0, kFlush, kCompaction, kRpc, kPublication, kLog };
inline constexpr size_t kPurposeCount = 6;
const char* PurposeName(Purpose purpose);

struct WireCounts {
  uint64_t round_trips = 0;    // Waits that found something outstanding: latencies paid.
  uint64_t work_requests = 0;  // Reads, writes, atomics, messages.
  uint64_t doorbells = 0;      // Times a chain of work requests was handed to the device.
  uint64_t read_bytes = 0;     // From the memory node to the compute node.
  uint64_t write_bytes = 0;    // From the compute node to the memory node.

  WireCounts& operator+=(const WireCounts& other);
  WireCounts operator-(const WireCounts& earlier) const;
};

using WireTotals = std::array<WireCounts, kPurposeCount>;

// Counters that one thread (the owner of a queue pair) adds to and any thread may read.
class WireCost {
 public:
  void AddRoundTrip(Purpose purpose) { Add(At(purpose).round_trips, 1); }
  void AddWorkRequest(Purpose purpose) { Add(At(purpose).work_requests, 1); }
  void AddDoorbell(Purpose purpose) { Add(At(purpose).doorbells, 1); }
  void AddReadBytes(Purpose purpose, uint64_t n) { Add(At(purpose).read_bytes, n); }
  void AddWriteBytes(Purpose purpose, uint64_t n) { Add(At(purpose).write_bytes, n); }

  WireTotals Totals() const;

 private:
  struct Counters {
    std::atomic<uint64_t> round_trips{0}, work_requests{0}, doorbells{0}, read_bytes{0},
        write_bytes{0};
  };
  Counters& At(Purpose purpose) { return counters_[static_cast<size_t>(purpose)]; }
  // One writer: a load and a store, not a locked read-modify-write. Relaxed: counts order nothing.
  static void Add(std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::array<Counters, kPurposeCount> counters_;
};

}  // namespace dlsm
