#include "util/stderr_sink.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <iterator>

namespace dlsm {
namespace {

// Names that peers choose are part of messages: none of them may end a line and begin another, or
// tell a terminal what to do.
void MakePrintable(spdlog::memory_buf_t* line) {
  constexpr char kDelete = 0x7f;
  for (size_t i = 0; i + 1 < line->size(); ++i) {  // The end of the line stays.
    char& c = (*line)[i];
    if ((c >= 0 && c < ' ') || c == kDelete) c = '?';
  }
}

// As "[2026-11-30 10:36:24.250Z] [dlsm] [warning] text". The time is UTC: the C library takes a
// lock for a local time, and a child that fork() makes while another thread holds the lock waits
// for it forever.
void Format(const spdlog::details::log_msg& message, spdlog::memory_buf_t* line) {
  using std::chrono::floor;
  const auto now = floor<std::chrono::milliseconds>(message.time);
  const auto day = floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  const auto view = [](const spdlog::string_view_t& text) {
    return fmt::string_view(text.data(), text.size());
  };
  fmt::format_to(std::back_inserter(*line),
                 "[{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}Z] [{}] [{}] {}\n",
                 static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                 static_cast<unsigned>(date.day()), time.hours().count(), time.minutes().count(),
                 time.seconds().count(), time.subseconds().count(), view(message.logger_name),
                 view(spdlog::level::to_string_view(message.level)), view(message.payload));
}

// While one lives, its thread receives no SIGPIPE. One that a write of the thread has raised
// meanwhile is taken back in the end.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  ~NoSigpipe() {
    if (!was_pending_) {
      const timespec at_once{};
      while (sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace

void WriteToStderr(const char* data, size_t bytes) {
  const NoSigpipe no_sigpipe;
  while (bytes > 0) {
    const ssize_t written = write(STDERR_FILENO, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // Nobody could be told.
    data += written;
    bytes -= static_cast<size_t>(written);
  }
}

void StderrSink::log(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  Format(message, &line);
  MakePrintable(&line);
  WriteToStderr(line.data(), line.size());
}

}  // namespace dlsm
