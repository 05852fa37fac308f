// The flags of db_bench that say what is run, and with which keys and values.
#pragma once

#include "benchmarks/bench_options.h"
#include "dLSM/status.h"

namespace dlsm::bench {

// Checks them all; the error names flag, value and what is allowed.
Status MakeBenchOptions(BenchOptions* options);

}  // namespace dlsm::bench
