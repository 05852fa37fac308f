// What is checked of a name and of options before anybody is asked.
#pragma once

#include <string>

#include "dLSM/options.h"
#include "dLSM/status.h"

namespace dlsm {

Status CheckName(const std::string& name);
Status CheckOptions(const Options& options);

// "For ever" is a week: any longer, and points in time no longer fit where they are calculated.
Options WithFiniteTimeouts(Options options);

}  // namespace dlsm
