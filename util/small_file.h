// Reading of small files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "dLSM/status.h"

namespace dlsm {

struct SmallFile {
  std::string contents;
  mode_t mode = 0;  // Permissions at the moment of reading.
};

// Of files that people write: configurations and secrets. InvalidArgument, with the reason, if
// there is no such regular file, or it has more than `bytes_max`; IOError if there is no descriptor
// for it. `what` names it in messages
// ("secret file").
Status ReadSmallFile(const std::string& what, const std::string& path, size_t bytes_max,
                     SmallFile* file);

// Of files that the system writes, in /proc and /sys: what can be read of it, "" if there is none.
std::string TextOf(const std::string& path);

}  // namespace dlsm
