// How much a memory node has to merge, and how fast it does: what a compute node decides by where a
// merge runs. Part of the answers to heartbeats and merges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dLSM/slice.h"

namespace dlsm {

// Of all databases together.
struct MergeLoad {
  uint64_t running = 0;               // Under way, those included that wait for others.
  uint64_t queued = 0;                // Not begun.
  uint64_t bytes_waiting = 0;         // Of input: of what is queued, and what is left of the rest.
  uint64_t bytes_merged = 0;          // Since the start: that it grows shows that merges go on.
  uint64_t workers = 0;               // Merges that run at a time; 0: none ever does.
  uint64_t bytes_per_second = 0;      // Of one merge while it runs, of late; 0: not known.
  uint64_t bytes_per_second_max = 0;  // Of all together, by budget; 0: no limit.
  std::optional<double> cpu_idle;     // Share of the processors' time, of late; in thousandths.

  void EncodeTo(std::string* to) const;
  // False if `from` does not begin with a load of this version, whole and in range.
  bool DecodeFrom(Slice* from);
};

}  // namespace dlsm
