#include "dLSM/version.h"

#include <fmt/core.h>

#include <string>

namespace dlsm {

const char* VersionString() {
  static const std::string text =
      fmt::format("{}.{}.{}", kMajorVersion, kMinorVersion, kPatchVersion);
  return text.c_str();
}

}  // namespace dlsm
