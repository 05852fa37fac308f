// The policies there are, by Options::compaction_style.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dLSM/options.h"
#include "db/merge/merge_policy.h"

namespace dlsm {

// All options have been checked.

// How many tables in level 0 start a merge, and how many stop writers.
struct Level0Triggers {
  size_t merge;
  size_t stop;
};
Level0Triggers Level0TriggersOf(const Options& options);

// Of one table that a merge makes.
uint64_t TableBytesMax(const Options& options);

std::unique_ptr<MergePolicy> NewMergePolicy(const Options& options);

}  // namespace dlsm
