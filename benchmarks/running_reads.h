// The reads that run beside the writes of an open loop.
#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/key_generator.h"
#include "benchmarks/two_phase_options.h"
#include "benchmarks/worker.h"
#include "util/histogram.h"

namespace dlsm::bench {

const char* ReadKindName(ReadKind kind);
// False if `name` is none.
bool ParseReadKind(const std::string& name, ReadKind* kind);

// What one thread measured. Reads that the end of the phase cut off are not in it.
struct ReadLatencies {
  Histogram ns;
  uint64_t entries = 0;
};

// Reads in a closed loop until the measured threads of the worker's run are done. `entries`: of a
// scan.
void RunReads(ReadKind kind, uint64_t entries, const KeyChooser& chooser, Worker& worker,
              ReadLatencies* latencies);

}  // namespace dlsm::bench
