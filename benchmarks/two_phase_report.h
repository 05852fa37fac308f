// What the two-phase evaluation gave, for people and for programs.
#pragma once

#include "benchmarks/bench_options.h"
#include "benchmarks/report.h"
#include "benchmarks/two_phase.h"

namespace dlsm::bench {

// Fills in result->text and result->figures, and of the running phase what every workload has:
// operations, latencies (from the arrival), bytes.
void DescribeTwoPhase(const BenchOptions& options, const TwoPhaseOutcome& outcome,
                      BenchResult* result);

}  // namespace dlsm::bench
