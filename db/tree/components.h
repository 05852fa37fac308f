// Components: the sorted runs that one lookup or scan may have to look into. What readers pay, and
// what a limit on writers is measured against (Luo & Carey section 2.3).
#pragma once

#include <cstddef>

#include "db/tree/version.h"

namespace dlsm {

// Each run of level 0, and of each deeper level the runs of the guard that has most of them.
size_t CountComponents(const Version& version);

// Deeper than level 0, down to the deepest level with tables.
size_t LevelsInUse(const Version& version);

}  // namespace dlsm
