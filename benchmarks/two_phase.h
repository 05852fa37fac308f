// The two-phase evaluation of a store's sustainable write throughput (Luo and Carey, "On
// performance stability in LSM-based storage systems", VLDB 2019, section 3):
//
// 1. Testing phase: threads write in a closed loop. After a warm-up, the writes completed in
//    --testing_seconds are the maximum throughput. The store is then left alone until it is quiet.
//    All of this with merges scheduled fairly, and leveled merges out of level 0 no wider than what
//    makes one due, where the store has a choice.
// 2. Running phase: writes arrive in an open loop at a share of that throughput, for
//    --running_seconds; then the backlog is worked off. If latencies stay low, the store sustains
//    it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench_options.h"
#include "benchmarks/engine.h"
#include "benchmarks/open_loop.h"
#include "benchmarks/report.h"
#include "benchmarks/running_reads.h"
#include "benchmarks/step_stream.h"
#include "benchmarks/tick_clock.h"
#include "benchmarks/time_series.h"
#include "benchmarks/value_generator.h"
#include "benchmarks/workload.h"

namespace dlsm::bench {

// What a phase gave.
struct PhaseOutcome {
  double seconds = 0;  // Until its last write completed.
  WriteLatencies latencies;
  std::vector<ReadLatencies> reads;  // As TwoPhaseOptions::reads.
  std::vector<StallTotal> stalls;    // Of this phase alone.
  std::vector<SecondRow> rows;
  uint64_t user_bytes_written = 0;
  uint64_t found = 0;
  uint64_t misses = 0;

  uint64_t arrivals() const { return latencies.write_ns.count(); }
  uint64_t completions() const { return latencies.processing_ns.count(); }
  // The most writes that had arrived and not completed at the end of a second.
  uint64_t BacklogMax() const;
};

struct TwoPhaseOutcome {
  std::optional<PhaseOutcome> testing;
  double max_throughput = 0;  // Writes per second; 0 without a testing phase.
  // From the end of the testing phase until no flush and no merge was due.
  double testing_seconds_to_quiet = 0;
  double arrival_rate = 0;
  PhaseOutcome running;
};

// One thread, which starts those of the phases.
class TwoPhase {
 public:
  // All outlive it. `run`: tells this run's random numbers from those of others.
  TwoPhase(const Workload& workload, const BenchOptions& options, Engine& engine,
           const ValueGenerator& values, const TickClock& ticks, WriteHistory& history,
           uint64_t run);

  // Fills in the figures of the running phase, and the text and named figures of both.
  Status Run(BenchResult* result);

 private:
  class Phase;
  class SustainableMerges;

  // Of a phase, for people.
  std::string NameOf(const char* phase) const;
  Status RunTesting(TwoPhaseOutcome* outcome);
  Status RunClosed(double seconds, const char* name, PhaseOutcome* outcome);
  Status RunOpen(double arrival_rate, PhaseOutcome* outcome);

  const Workload& workload_;
  const BenchOptions& options_;
  Engine& engine_;
  const ValueGenerator& values_;
  const TickClock& ticks_;
  WriteHistory& history_;
  const uint64_t run_;
  const TimeSeriesFile file_;
};

}  // namespace dlsm::bench
