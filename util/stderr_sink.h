// Where the library's log goes if the application has named no other place: standard error.
#pragma once

#include <spdlog/sinks/sink.h>

#include <cstddef>
#include <memory>
#include <string>

namespace dlsm {

// Writes to standard error, and allocates nothing. That standard error is closed, or a pipe that
// nobody reads any more, is no reason to end the application: the bytes are lost then, and no
// SIGPIPE is raised. Thread-safe.
void WriteToStderr(const char* data, size_t bytes);

// Thread-safe, and without a lock: a child that fork() makes while a thread of its parent logs can
// log as well. Each message is one WriteToStderr().
class StderrSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override;
  void flush() override {}
  // There is one format.
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}
};

}  // namespace dlsm
