// Which of the keys are a compute node's, by the flags of db_bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/status.h"

namespace dlsm::bench {

// The part of the keys that this compute node has.
struct OwnKeys {
  uint64_t first = 0;
  uint64_t count = 0;
  std::vector<std::string> boundaries;  // Of all compute nodes.
};

// Reads --config if --compute_boundaries divides the keys; the error names flag, value and what is
// allowed.
Status OwnKeysFromFlags(OwnKeys* own);

}  // namespace dlsm::bench
