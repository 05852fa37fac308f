// Compaction filters by their names: the built-in ones, and those that are registered in this
// process.
#pragma once

#include <memory>
#include <string>

#include "dLSM/compaction_filter.h"
#include "dLSM/status.h"

namespace dlsm {

inline constexpr size_t kFilterParametersBytesMax = size_t{64} << 10;

// NotSupported if no factory has the name, and the factory's own error.
Status MakeCompactionFilter(const std::string& name, const Slice& parameters,
                            std::shared_ptr<const CompactionFilter>* filter);

}  // namespace dlsm
