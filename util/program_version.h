// The --version of every program.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string_view>

#include "dLSM/version.h"

namespace dlsm {

// Returns true if the command line has --version. It has printed the name by which the program was
// started and the library's version then, as in "dlsm_tool 0.1.0", and the program should end.
// Asked before gflags parses, whose own answer has other words.
inline bool PrintedVersion(int count, char** arguments) {
  for (int i = 1; i < count && std::string_view(arguments[i]) != "--"; ++i) {
    const std::string_view argument = arguments[i];
    if (argument != "--version" && argument != "-version") continue;
    const std::string_view program = arguments[0];
    fmt::print("{} {}\n", program.substr(program.rfind('/') + 1), VersionString());
    std::fflush(stdout);
    return true;
  }
  return false;
}

}  // namespace dlsm
