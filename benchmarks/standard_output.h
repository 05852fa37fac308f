// Standard output as a file that may fail: a pipe whose reader has gone, a full disk.
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "port/error_text.h"

namespace dlsm::bench {

// As fmt::print(), which throws where it cannot write: FlushOutput() tells.
template <typename... Arguments>
void Say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// IOError if anything of what was said could not be written. SIGPIPE is to be ignored.
inline Status FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return Status::OK();
  return Status::IOError("cannot write to standard output",
                         (errno != 0 ? port::ErrorText(errno) : std::string("it failed before")) +
                             "; has its reader ended, or is its disk full?");
}

}  // namespace dlsm::bench
