// Writes that arrive on a schedule, whether or not those before them have completed (Luo and Carey,
// "On performance stability in LSM-based storage systems", VLDB 2019, section 3).
//
// 1. Threads take the arrivals in order; whichever is free takes the next one.
// 2. It waits until the arrival is due. If it is overdue, because the store held up all threads,
//    the write begins at once.
// 3. Its write latency runs from the arrival, its processing latency from the moment it began.
//
// So a store that stands still for a second delays all arrivals of that second and they are all
// measured. (A closed loop would ask nothing meanwhile and count one slow write: "coordinated
// omission".) Arrivals that are queued take no memory: they are numbers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "benchmarks/arrival_clock.h"
#include "benchmarks/arrival_schedule.h"
#include "benchmarks/time_series.h"
#include "util/histogram.h"

namespace dlsm::bench {

// What one thread measured.
struct WriteLatencies {
  Histogram write_ns;              // From the arrival, of all arrivals that the thread took.
  Histogram processing_ns;         // From the begin, of all that completed.
  uint64_t completed_in_time = 0;  // Before the end of the phase.

  void Add(uint64_t arrival_ns, uint64_t begin_ns, uint64_t end_ns, uint64_t phase_end_ns) {
    write_ns.Add(end_ns - arrival_ns);
    processing_ns.Add(end_ns - begin_ns);
    if (end_ns < phase_end_ns) ++completed_in_time;
  }
  void Merge(const WriteLatencies& other) {
    write_ns.Merge(other.write_ns);
    processing_ns.Merge(other.processing_ns);
    completed_in_time += other.completed_in_time;
  }
};

// The moment at which the first of several threads is ready. Thread-safe.
class CommonStart {
 public:
  uint64_t Get(ArrivalClock& clock) {
    uint64_t none = 0;
    const uint64_t now = std::max<uint64_t>(1, clock.NowNs());
    start_ns_.compare_exchange_strong(none, now, std::memory_order_relaxed);
    return start_ns_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> start_ns_{0};  // Relaxed: nothing else is published by it. 0: not yet.
};

// The loop that it is compared with: each thread writes as fast as the store lets it
// until the end of the phase.
template <typename Write>
void RunClosedLoop(uint64_t phase_end_ns, ArrivalClock& clock, CommonStart& common_start,
                   Write write, WriteLatencies* latencies, TimeSeries::Recorder* recorder) {
  const uint64_t start_ns = common_start.Get(clock);
  uint64_t begin_ns = clock.WaitUntil(start_ns) - start_ns;
  while (begin_ns < phase_end_ns && write()) {
    const uint64_t end_ns = clock.NowNs() - start_ns;
    latencies->Add(begin_ns, begin_ns, end_ns, phase_end_ns);
    recorder->Add(begin_ns, end_ns);
    begin_ns = end_ns;
  }
}

// Thread-safe.
class OpenLoop {
 public:
  // Arrivals whose write has not begun `drain_ns` after the end of the schedule are left undone.
  OpenLoop(const ArrivalSchedule& schedule, ArrivalClock& clock, uint64_t drain_ns)
      : schedule_(schedule), clock_(clock), give_up_ns_(schedule.end_ns() + drain_ns) {}

  // Takes arrivals until there are no more, in each thread. `write()` does one write and returns
  // whether it succeeded; if not, all threads end.
  template <typename Write>
  void Run(CommonStart& common_start, Write write, WriteLatencies* latencies,
           TimeSeries::Recorder* recorder) {
    const uint64_t start_ns = common_start.Get(clock_);
    while (true) {
      const uint64_t arrival = next_.fetch_add(1, std::memory_order_relaxed);
      if (arrival >= schedule_.count()) return;
      const uint64_t arrival_ns = schedule_.AtNs(arrival);
      const uint64_t begin_ns = clock_.WaitUntil(start_ns + arrival_ns) - start_ns;
      if (begin_ns >= give_up_ns_) [[unlikely]] {
        AddUnfinished(arrival_ns, latencies, recorder);
        continue;
      }
      if (!write()) [[unlikely]] {
        next_.store(schedule_.count(), std::memory_order_relaxed);
        return;
      }
      const uint64_t end_ns = clock_.NowNs() - start_ns;
      latencies->Add(arrival_ns, begin_ns, end_ns, schedule_.end_ns());
      recorder->Add(arrival_ns, end_ns);
    }
  }

 private:
  // Its latency is not known, but that it is at least this.
  void AddUnfinished(uint64_t arrival_ns, WriteLatencies* latencies,
                     TimeSeries::Recorder* recorder) const {
    latencies->write_ns.Add(give_up_ns_ - arrival_ns);
    recorder->AddUnfinished(arrival_ns, give_up_ns_);
  }

  const ArrivalSchedule& schedule_;
  ArrivalClock& clock_;
  const uint64_t give_up_ns_;
  // The next arrival that nobody has taken. Relaxed: it hands out numbers and publishes nothing.
  alignas(64) std::atomic<uint64_t> next_{0};
};

}  // namespace dlsm::bench
