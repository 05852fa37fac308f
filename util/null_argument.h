// What a call returns that was given a null pointer where it needs an object.
#pragma once

#include <string>

#include "dLSM/status.h"

namespace dlsm {

// `name`: of the parameter.
inline Status NullArgument(const char* name) {
  return Status::InvalidArgument(std::string(name) + " is null", "the call needs it");
}

}  // namespace dlsm
