// The flags of db_bench that say which store is measured, and how it is set up.
#pragma once

#include "benchmarks/engine.h"
#include "dLSM/status.h"

namespace dlsm::bench {

// Checks them all; the error names flag, value and what is allowed.
Status MakeEngineOptions(EngineOptions* options);

}  // namespace dlsm::bench
