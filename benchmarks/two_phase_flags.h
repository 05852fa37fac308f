// The flags of db_bench that concern the workload "twophase" alone.
#pragma once

#include "benchmarks/two_phase_options.h"
#include "dLSM/status.h"

namespace dlsm::bench {

// Checks them all; the error names flag, value and what is allowed.
Status MakeTwoPhaseOptions(TwoPhaseOptions* options);

}  // namespace dlsm::bench
