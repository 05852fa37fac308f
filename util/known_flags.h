// Wrong flags of the programs: gflags names them, but not where to look for the right ones.
#pragma once

#include <gflags/gflags.h>

#include <string>

#include "dLSM/status.h"

namespace dlsm {

// InvalidArgument if the command line has a flag that the program does not know. To be asked before
// the flags are parsed, which ends the program.
inline Status CheckFlagsAreKnown(int count, char** arguments) {
  gflags::CommandLineFlagInfo flag;
  // What --undefok says may be unknown gflags looks up itself, wherever it stands.
  for (int i = 1; i < count && std::string(arguments[i]) != "--"; ++i) {
    if (std::string(arguments[i]).find("-undefok") <= 1) return Status::OK();
  }
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--") return Status::OK();
    const size_t begin = argument.find_first_not_of('-');
    if (begin == 0 || begin == std::string::npos) continue;  // Not a flag.
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(begin, equals - begin);
    if (gflags::GetCommandLineFlagInfo(name.c_str(), &flag)) {
      // The next argument is its value.
      if (equals == std::string::npos && flag.type != "bool") ++i;
      continue;
    }
    const bool negated = name.rfind("no", 0) == 0 &&
                         gflags::GetCommandLineFlagInfo(name.c_str() + 2, &flag) &&
                         flag.type == "bool";
    if (negated) continue;
    const std::string program = arguments[0];
    return Status::InvalidArgument("there is no flag --" + name,
                                   "see " + program.substr(program.rfind('/') + 1) + " --help");
  }
  return Status::OK();
}

}  // namespace dlsm
