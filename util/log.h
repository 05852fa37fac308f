// The library's log: an spdlog logger named "dlsm". It writes warnings and errors to stderr; the
// environment variable DLSM_LOG (trace, debug, info, warn, error, critical, off) sets another
// level. An application that has registered its own spdlog logger "dlsm" before its first call of
// the library gets the messages there instead.
//
// Who first knows what an error is logs it, once; callers pass the Status on.
//
// Messages are formatted in one place: spdlog's own templates, which each file that logs would
// otherwise compile for itself, take longer than all else in such a file.
#pragma once

#include <fmt/core.h>

namespace spdlog {
class logger;
}

namespace dlsm {

// Thread-safe. A message below the level that is set is not formatted; one for which the process
// has no memory is dropped.
class Logger {
 public:
  // The severities of spdlog, in their order, from debug on.
  enum class Level { kDebug, kInfo, kWarn, kError, kCritical };

  // `sink` outlives the logger.
  explicit Logger(spdlog::logger& sink) : sink_(sink) {}

  template <typename... Arguments>
  void Debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Write(Level::kDebug, format, fmt::make_format_args(arguments...));
  }
  template <typename... Arguments>
  void Info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Write(Level::kInfo, format, fmt::make_format_args(arguments...));
  }
  template <typename... Arguments>
  void Warn(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Write(Level::kWarn, format, fmt::make_format_args(arguments...));
  }
  template <typename... Arguments>
  void Error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Write(Level::kError, format, fmt::make_format_args(arguments...));
  }
  template <typename... Arguments>
  void Critical(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Write(Level::kCritical, format, fmt::make_format_args(arguments...));
  }

  spdlog::logger& sink() { return sink_; }

 private:
  void Write(Level level, fmt::string_view format, fmt::format_args arguments);

  spdlog::logger& sink_;
};

// Thread-safe, and alive until the process ends.
Logger& Log();

}  // namespace dlsm
