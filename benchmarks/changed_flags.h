// The flags that a run was given, for the line that repeats it.
#pragma once

#include <gflags/gflags.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dlsm {

// " --name=value" of each flag that does not have its default, but for those of `except`.
inline std::string ChangedFlags(const std::vector<std::string>& except) {
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  std::string text;
  for (const gflags::CommandLineFlagInfo& flag : flags) {
    if (flag.current_value == flag.default_value) continue;
    if (std::ranges::find(except, flag.name) != except.end()) continue;
    text += " --" + flag.name + "=" + flag.current_value;
  }
  return text;
}

}  // namespace dlsm
