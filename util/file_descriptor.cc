#include "util/file_descriptor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "port/error_text.h"

namespace dlsm {
namespace {

// The numbers that this process's FileDescriptors have. A child closes these, without a lock, for
// a thread of its parent may have held it. A number is forgotten before it is closed: whatever
// thread is where when a child is made, the child closes nothing that is somebody else's.
class OpenNumbers {
 public:
  void Add(int number) {
    if (number < kMax) WordOf(number).fetch_or(BitOf(number), std::memory_order_relaxed);
  }
  void Remove(int number) {
    if (number < kMax) WordOf(number).fetch_and(~BitOf(number), std::memory_order_relaxed);
  }
  void CloseAll() {
    for (size_t i = 0; i < words_.size(); ++i) {
      uint64_t bits = words_[i].exchange(0, std::memory_order_relaxed);
      for (; bits != 0; bits &= bits - 1) {
        ::close(static_cast<int>(i * kWordBits) + std::countr_zero(bits));
      }
    }
  }

 private:
  static constexpr int kWordBits = 64;
  static constexpr int kMax = 1 << 16;  // More than processes mostly may have; 8 KB.

  static uint64_t BitOf(int number) { return uint64_t{1} << (number % kWordBits); }
  std::atomic<uint64_t>& WordOf(int number) {
    return words_[static_cast<size_t>(number / kWordBits)];
  }

  std::array<std::atomic<uint64_t>, kMax / kWordBits> words_{};
};

// Process-wide, as descriptors are.
constinit OpenNumbers open_numbers;

// Without memory for the handler, when the program starts, children keep them.
[[maybe_unused]] const bool children_close_them =
    pthread_atfork(nullptr, nullptr, [] { open_numbers.CloseAll(); }) == 0;

int MovedUp(int low) {
  const int high = ::fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno == EINVAL ? EMFILE : errno;  // EINVAL: there may be no number above 2.
  ::close(low);
  errno = error;
  return high;
}

}  // namespace

FileDescriptor::FileDescriptor(int opened) noexcept : number_(opened) {
  if (number_ < 0) return;
  if (number_ <= STDERR_FILENO) number_ = MovedUp(number_);
  if (number_ >= 0) open_numbers.Add(number_);
}

int FileDescriptor::Release() noexcept {
  if (number_ >= 0 && opened_by_.IsHere()) open_numbers.Remove(number_);
  return std::exchange(number_, -1);
}

void FileDescriptor::Close() noexcept {
  if (number_ < 0) return;
  const int number = std::exchange(number_, -1);
  if (!opened_by_.IsHere()) return;  // By now the number may be somebody else's.
  open_numbers.Remove(number);
  ::close(number);
}

void FileDescriptor::Shutdown() const noexcept {
  if (number_ >= 0 && opened_by_.IsHere()) static_cast<void>(::shutdown(number_, SHUT_RDWR));
}

bool IsOutOfDescriptors(int error) { return error == EMFILE || error == ENFILE; }

Status CannotOpen(std::string_view what, int error) {
  if (error == EMFILE) {
    return Status::IOError(fmt::format("this process has no descriptor left for {}", what),
                           "raise its limit of open files (ulimit -n)");
  }
  if (error == ENFILE) {
    return Status::IOError(fmt::format("this machine has no descriptor left for {}", what),
                           "raise fs.file-max (sysctl)");
  }
  return Status::IOError(fmt::format("cannot make {}", what), port::ErrorText(error));
}

void OccupyStandardDescriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Opened the wrong way round, so that its use is an error.
    const int opened = ::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened > STDERR_FILENO) ::close(opened);  // Another thread was faster.
  }
}

}  // namespace dlsm
