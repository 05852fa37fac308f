#include "util/small_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "util/file_descriptor.h"

namespace dlsm {
namespace {

FileDescriptor OpenToRead(const std::string& path) {
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// The number of bytes that were read, less than asked for at the end only; -1 with errno.
ssize_t ReadUpTo(const FileDescriptor& file, char* to, size_t bytes) {
  size_t all = 0;
  while (all < bytes) {
    const ssize_t got = read(file.get(), to + all, bytes - all);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return got;
    all += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(all);
}

Status CannotRead(const std::string& what, const std::string& path, int error) {
  if (IsOutOfDescriptors(error)) return CannotOpen(fmt::format("the {} {}", what, path), error);
  return Status::InvalidArgument(
      fmt::format("cannot read the {} {}: {}; check the path and its permissions", what, path,
                  std::generic_category().message(error)));
}

}  // namespace

Status ReadSmallFile(const std::string& what, const std::string& path, size_t bytes_max,
                     SmallFile* file) {
  const FileDescriptor descriptor = OpenToRead(path);
  struct stat properties;
  if (descriptor.get() < 0 || fstat(descriptor.get(), &properties) != 0) {
    return CannotRead(what, path, errno);
  }
  if (!S_ISREG(properties.st_mode)) {
    return Status::InvalidArgument(
        fmt::format("the {} {} is not a regular file; name one", what, path));
  }
  std::string contents(bytes_max + 1, '\0');  // One more, to notice a file that is too long.
  const ssize_t got = ReadUpTo(descriptor, contents.data(), contents.size());
  if (got < 0) return CannotRead(what, path, errno);
  const auto bytes = static_cast<size_t>(got);
  if (bytes > bytes_max) {
    return Status::InvalidArgument(fmt::format(
        "the {} {} has more than {} bytes; is it the right file?", what, path, bytes_max));
  }
  contents.resize(bytes);
  file->contents = std::move(contents);
  file->mode = properties.st_mode & 07777;
  return Status::OK();
}

std::string TextOf(const std::string& path) {
  constexpr size_t kChunkBytes = 4096;
  const FileDescriptor file = OpenToRead(path);
  if (!file.valid()) return "";
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kChunkBytes);
    const ssize_t got = ReadUpTo(file, text.data() + before, kChunkBytes);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < static_cast<ssize_t>(kChunkBytes)) return text;
  }
}

}  // namespace dlsm
