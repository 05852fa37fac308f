// A Logger that writes lines to a file, as in:
//
//   2026/11/30-14:05:09.000123 140213 opened in 3 ms
//
// the time of the day, the thread, and the message.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "db/leveldb/posix_files.h"
#include "db/leveldb/translate.h"
#include "util/file_descriptor.h"

namespace dlsm::compat {
namespace {

std::string LineBegin() {
  struct timeval now {};
  ::gettimeofday(&now, nullptr);
  struct tm day {};
  ::localtime_r(&now.tv_sec, &day);
  return fmt::format("{:04}/{:02}/{:02}-{:02}:{:02}:{:02}.{:06} {} ", day.tm_year + 1900,
                     day.tm_mon + 1, day.tm_mday, day.tm_hour, day.tm_min, day.tm_sec, now.tv_usec,
                     ::gettid());
}

std::string Formatted(const char* format, std::va_list arguments) {
  std::va_list again;
  va_copy(again, arguments);
  const int bytes = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text;
  if (bytes > 0) {
    text.resize(static_cast<size_t>(bytes));
    std::vsnprintf(text.data(), text.size() + 1, format, again);
  }
  va_end(again);
  return text;
}

// Thread-safe: each line is one write to a file that is open for appending.
class LineLogger final : public leveldb::Logger {
 public:
  explicit LineLogger(FileDescriptor file) : file_(std::move(file)) {}

  void Logv(const char* format, std::va_list arguments) override {
    std::string line = LineBegin() + Formatted(format, arguments);
    if (line.back() != '\n') line += '\n';
    // There is nobody to tell that a line of a log is lost.
    [[maybe_unused]] const ssize_t written = ::write(file_.get(), line.data(), line.size());
  }

 private:
  const FileDescriptor file_;
};

}  // namespace

leveldb::Status OpenLogger(const std::string& name, std::unique_ptr<leveldb::Logger>* logger) {
  FileDescriptor file(
      ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) {
    logger->reset();
    return SystemError(name, errno);
  }
  *logger = std::make_unique<LineLogger>(std::move(file));
  return leveldb::Status::OK();
}

}  // namespace dlsm::compat
