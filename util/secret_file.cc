#include "util/secret_file.h"

#include <fmt/core.h>

#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr mode_t kOthers = 077;
constexpr const char* kAroundSecret = " \t\r\n";

}  // namespace

Status ReadSecretFile(const std::string& path, std::string* secret) {
  SmallFile file;
  DLSM_RETURN_IF_ERROR(ReadSmallFile("secret file", path, kSecretBytesMax, &file));
  if ((file.mode & kOthers) != 0) {
    return Status::InvalidArgument(
        fmt::format("the secret file {0} is open to others than its owner (mode {1:04o}); "
                    "run: chmod 600 {0}",
                    path, file.mode));
  }
  const size_t first = file.contents.find_first_not_of(kAroundSecret);
  const size_t last = file.contents.find_last_not_of(kAroundSecret);
  const size_t bytes = first == std::string::npos ? 0 : last - first + 1;
  if (bytes < kSecretBytesMin) {
    return Status::InvalidArgument(
        bytes == 0 ? fmt::format("the secret file {} is empty", path)
                   : fmt::format("the secret in {} has {} characters, not {} at least", path, bytes,
                                 kSecretBytesMin),
        fmt::format("make one with: (umask 077; openssl rand -hex 32 > {})", path));
  }
  *secret = file.contents.substr(first, bytes);
  return Status::OK();
}

}  // namespace dlsm
