// How long keys and values may be, checked wherever entries come in.
#pragma once

#include <string>

#include "dLSM/db.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

inline Status CheckEntrySizes(const Slice& key, const Slice& value) {
  if (key.size() > kKeyBytesMax) {
    return Status::InvalidArgument("key of " + std::to_string(key.size()) + " bytes",
                                   "keys have at most 1 MiB");
  }
  if (value.size() > kValueBytesMax) {
    return Status::InvalidArgument("value of " + std::to_string(value.size()) + " bytes",
                                   "values have at most 64 MiB");
  }
  return Status::OK();
}

}  // namespace dlsm
