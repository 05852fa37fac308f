// The policies there are, by Options::compaction_style.
#pragma once

#include <memory>

#include "dLSM/options.h"
#include "db/merge_policy.h"

namespace dlsm {

// The options have been checked.
std::unique_ptr<MergePolicy> NewMergePolicy(const Options& options);

}  // namespace dlsm
