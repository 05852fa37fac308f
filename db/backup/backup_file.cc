#include "db/backup/backup_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "port/error_text.h"
#include "util/checksum.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
// A backup has what the database has, so it is for its owner alone.
constexpr mode_t kPermissions = 0600;
// How often the temporary file may vanish between its open and its lock.
constexpr int kOpenTries = 100;

std::string Remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "make room there, raise the limit (ulimit -f), or name a file on another disk";
    case ENOENT:
    case ENOTDIR:
      return "make its folder first";
    case EACCES:
    case EPERM:
    case EROFS:
      return "let this user write there, or name a file in another folder";
    default:
      return "name a file in another folder, or try again";
  }
}

}  // namespace

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status BackupFile::Failed(const char* call) const {
  const int error = errno;
  return Status::IOError(
      fmt::format("backup {}: {} of {}: {}", path_, call, temporary_, port::ErrorText(error)),
      Remedy(error));
}

// Another writer may rename or remove the file between our open() and our lock: then the lock is of
// a file that has lost its name.
Status BackupFile::OpenLocked(const std::string& temporary, FileDescriptor* descriptor) {
  for (int i = 0; i < kOpenTries; ++i) {
    FileDescriptor opened(::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kPermissions));
    if (!opened.valid()) {
      const int error = errno;
      if (IsOutOfDescriptors(error)) return CannotOpen("a backup", error);
      return Status::IOError(fmt::format("cannot make {}: {}", temporary, port::ErrorText(error)),
                             Remedy(error));
    }
    if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) {
      return Status::Busy(fmt::format("{} is being written by another backup", temporary),
                          "wait for its end, or name another file");
    }
    struct stat here {};
    struct stat named {};
    if (::fstat(opened.get(), &here) == 0 && ::stat(temporary.c_str(), &named) == 0 &&
        here.st_ino == named.st_ino && here.st_dev == named.st_dev) {
      *descriptor = std::move(opened);
      return Status::OK();
    }
  }
  return Status::Busy(fmt::format("{} is removed as often as it is made", temporary),
                      "name another file");
}

Status BackupFile::Create(const std::string& path, std::unique_ptr<BackupFile>* file) {
  struct stat present {};
  if (path.empty() || path.back() == '/') {
    return Status::InvalidArgument(fmt::format("backup '{}': no name of a file", path));
  }
  if (::stat(path.c_str(), &present) == 0 && !S_ISREG(present.st_mode)) {
    return Status::InvalidArgument(fmt::format("backup {}: that is no regular file", path),
                                   "name a file that does not exist, or an older backup");
  }
  FileDescriptor descriptor;
  DLSM_RETURN_IF_ERROR(OpenLocked(TemporaryName(path), &descriptor));
  file->reset(new BackupFile(path, std::move(descriptor)));
  if (::ftruncate((*file)->descriptor_.get(), 0) != 0) return (*file)->Failed("ftruncate");
  return Status::OK();
}

BackupFile::~BackupFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

Status BackupFile::Append(const Slice& bytes) {
  crc_ = Crc32cExtend(crc_, bytes.data(), bytes.size());
  bytes_ += bytes.size();
  buffer_.append(bytes.data(), bytes.size());
  if (buffer_.size() < kBufferBytes) return Status::OK();
  DLSM_RETURN_IF_ERROR(WriteOut(buffer_));
  buffer_.clear();
  return Status::OK();
}

Status BackupFile::WriteOut(Slice bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status::OK();
}

Status BackupFile::Commit() {
  DLSM_RETURN_IF_ERROR(WriteOut(buffer_));
  if (::fsync(descriptor_.get()) != 0) return Failed("fsync");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("rename");
  committed_ = true;
  const std::string name = FolderOf(path_);
  const FileDescriptor folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems know no fsync of folders.
  if (!folder.valid() || (::fsync(folder.get()) != 0 && errno != EINVAL)) {
    return Status::IOError(fmt::format("backup {}: complete, but fsync of its folder {}: {}", path_,
                                       name, port::ErrorText(errno)),
                           "a power failure may bring the older file back: write it once more");
  }
  return Status::OK();
}

}  // namespace dlsm
