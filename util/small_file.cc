#include "util/small_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace dlsm {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

Status CannotRead(const std::string& what, const std::string& path, int error) {
  return Status::InvalidArgument(
      fmt::format("cannot read the {} {}: {}; check the path and its permissions", what, path,
                  std::generic_category().message(error)));
}

}  // namespace

Status ReadSmallFile(const std::string& what, const std::string& path, size_t bytes_max,
                     SmallFile* file) {
  const FileDescriptor descriptor(path);
  struct stat properties;
  if (descriptor.get() < 0 || fstat(descriptor.get(), &properties) != 0) {
    return CannotRead(what, path, errno);
  }
  if (!S_ISREG(properties.st_mode)) {
    return Status::InvalidArgument(
        fmt::format("the {} {} is not a regular file; name one", what, path));
  }
  std::string contents(bytes_max + 1, '\0');  // One more, to notice a file that is too long.
  size_t bytes = 0;
  while (bytes < contents.size()) {
    const ssize_t got = read(descriptor.get(), contents.data() + bytes, contents.size() - bytes);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(what, path, errno);
    bytes += static_cast<size_t>(got);
  }
  if (bytes > bytes_max) {
    return Status::InvalidArgument(fmt::format(
        "the {} {} has more than {} bytes; is it the right file?", what, path, bytes_max));
  }
  contents.resize(bytes);
  file->contents = std::move(contents);
  file->mode = properties.st_mode & 07777;
  return Status::OK();
}

}  // namespace dlsm
