// Changes of options that give databases of tests another shape: what is in more than one list of
// shapes.
#pragma once

#include "dLSM/options.h"

namespace dlsm {

template <CompactionStyle style>
void Style(Options* options) {
  options->compaction_style = style;
}

// So few runs to a guard that it is merged every moment.
inline void Guards(Options* options) {
  options->compaction_style = CompactionStyle::kGuards;
  options->max_tables_per_guard = 3;
}

inline void MergeHere(Options* options) {
  options->compaction_place = CompactionPlace::kComputeNode;
}

}  // namespace dlsm
