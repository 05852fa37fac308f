// What the workload "twophase" is asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/arrival_schedule.h"

namespace dlsm::bench {

enum class ReadKind {
  kLookup,     // Get of one key.
  kShortScan,  // Seek to a key and read this entry and those after it.
  kLongScan,   // As above, with many more entries.
};

struct TwoPhaseOptions {
  double warmup_seconds = 10;
  double testing_seconds = 60;
  double running_seconds = 60;
  double utilization = 0.95;  // Of the throughput that the testing phase measured.
  // Writes per second of the running phase; if not 0, there is no testing phase.
  double arrival_rate = 0;
  ArrivalPlan arrivals;         // Its mean rate follows from the above.
  std::vector<ReadKind> reads;  // A thread for each, beside the writes of the running phase.
  uint64_t short_scan_entries = 100;
  uint64_t long_scan_entries = 1'000'000;
  std::string time_series;  // Path of a file; empty: none.
};

}  // namespace dlsm::bench
