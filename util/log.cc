#include "util/log.h"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "util/stderr_sink.h"

namespace dlsm {
namespace {

constexpr const char* kName = "dlsm";
constexpr const char* kLevelVariable = "DLSM_LOG";

void SetLevel(spdlog::logger* logger) {
  logger->set_level(spdlog::level::warn);
  const char* wanted = std::getenv(kLevelVariable);  // NOLINT(concurrency-mt-unsafe): once.
  if (wanted == nullptr || *wanted == '\0') return;
  const auto level = spdlog::level::from_str(wanted);
  // Names that it does not know also come back as "off".
  if (level == spdlog::level::off && std::string(wanted) != "off") {
    logger->warn("{}={} is no level; use trace, debug, info, warn, error, critical or off",
                 kLevelVariable, wanted);
    return;
  }
  logger->set_level(level);
}

spdlog::level::level_enum Severity(Logger::Level level) {
  switch (level) {
    case Logger::Level::kDebug:
      return spdlog::level::debug;
    case Logger::Level::kInfo:
      return spdlog::level::info;
    case Logger::Level::kWarn:
      return spdlog::level::warn;
    case Logger::Level::kError:
      return spdlog::level::err;
    case Logger::Level::kCritical:
      return spdlog::level::critical;
  }
  return spdlog::level::critical;
}

std::shared_ptr<spdlog::logger> MakeSink() {
  if (auto registered = spdlog::get(kName)) return registered;
  auto logger = std::make_shared<spdlog::logger>(kName, std::make_shared<StderrSink>());
  SetLevel(logger.get());
  return logger;
}

}  // namespace

void Logger::Write(Level level, fmt::string_view format, fmt::format_args arguments) {
  const spdlog::level::level_enum severity = Severity(level);
  if (!sink_.should_log(severity)) return;
  try {
    sink_.log(severity, fmt::vformat(format, arguments));
  } catch (const std::bad_alloc&) {
    // Whoever logs goes on, and most often has a Status to tell the same.
  }
}

Logger& Log() {
  // Never destroyed: threads may log after static destruction began.
  static const auto& sink =
      *std::make_unique<std::shared_ptr<spdlog::logger>>(MakeSink()).release();
  static Logger logger(*sink);
  return logger;
}

}  // namespace dlsm
