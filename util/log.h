// The library's log: an spdlog logger named "dlsm". It writes warnings and errors to stderr; the
// environment variable DLSM_LOG (trace, debug, info, warn, error, critical, off) sets another
// level. An application that has registered its own spdlog logger "dlsm" before its first call of
// the library gets the messages there instead.
//
// Who first knows what an error is logs it, once; callers pass the Status on.
#pragma once

#include <fmt/format.h>
#include <spdlog/logger.h>

namespace dlsm {

// Thread-safe, and alive until the process ends.
spdlog::logger& Log();

}  // namespace dlsm
