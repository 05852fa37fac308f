#include "util/fabric/mapped/shm_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "port/error_text.h"
#include "port/sync_point.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr std::string_view kPrefix = "dlsm-";
constexpr size_t kNameBytesMax = 64;
constexpr uint64_t kStatBlockBytes = 512;  // Whatever the file system's are.
constexpr int kAttemptsMax = 16;  // Each is lost only to a sweeper that came within microseconds.

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

std::string NewPath(const std::string& name) {
  std::string plain = name.substr(0, kNameBytesMax);
  for (char& c : plain) {
    if (!IsPlain(c)) c = '_';
  }
  std::random_device random;
  const uint64_t draw = (uint64_t{random()} << 32) | random();
  return fmt::format("{}/{}{}-{}-{:016x}", kFolder, kPrefix, plain, ::getpid(), draw);
}

// The region's file in a memory node's directory (memory_node/store/directory.h).
constexpr std::string_view kFileOfDirectory = "/dlsm-memory";

// Only names that a memory node would have made are removed.
bool IsOurs(const std::string& path) {
  const std::string start = fmt::format("{}/{}", kFolder, kPrefix);
  return path.starts_with(start) && path.find('/', start.size()) == std::string::npos;
}

// What the owner of a file may still write of it; none if there is no owner any more.
uint64_t PromisedBytes(const std::string& path) {
  struct stat attributes {};
  if (::lstat(path.c_str(), &attributes) != 0 || !S_ISREG(attributes.st_mode)) return 0;
  const auto bytes = static_cast<uint64_t>(attributes.st_size);
  const uint64_t taken = static_cast<uint64_t>(attributes.st_blocks) * kStatBlockBytes;
  // So is a new one, too: its lock has to be free for its owner.
  if (bytes <= taken) return 0;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  // Another user's cannot be asked, and is taken for alive.
  if (file.valid() && ::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return 0;
  return bytes - taken;
}

uint64_t PromisedBytes() {
  uint64_t promised = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kFolder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (IsOurs(path)) promised += PromisedBytes(path);
  }
  return promised;
}

// For a file of `bytes`. `made`: it is there already. Asked again then: of two that are made at
// once, each has seen the other.
Status CheckRoom(uint64_t bytes, bool made) {
  // First: what somebody takes of what he was promised, between the two looks, counts twice, not
  // never.
  uint64_t promised = PromisedBytes();
  port::SyncPoint("shm file: promises counted");
  struct statvfs space {};
  if (::statvfs(kFolder, &space) != 0) {
    return Status::IOError(
        fmt::format("{} is not usable ({}); mount a tmpfs there or use the tcp "
                    "fabric",
                    kFolder, port::ErrorText(errno)));
  }
  const uint64_t room = uint64_t{space.f_bavail} * space.f_frsize;
  if (made) promised -= std::min(promised, bytes);
  if (promised <= room && bytes <= room - promised) return Status::OK();
  return Status::IOError(
      fmt::format("{} has room for {} bytes, {} of them promised to other memory nodes, and not "
                  "for {} more; ask for less, remove files there, or as root: "
                  "mount -o remount,size=<larger> {}",
                  kFolder, room, promised, bytes, kFolder));
}

// False when a sweeper was faster: it held the lock or has removed the name.
bool LockAsOwner(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return false;
  struct stat attributes {};
  return ::fstat(file, &attributes) == 0 && attributes.st_nlink > 0;
}

bool RemoveIfStale(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat attributes {};
  if (!file.valid() || ::fstat(file.get(), &attributes) != 0) return false;
  if (!S_ISREG(attributes.st_mode) || attributes.st_uid != ::geteuid()) return false;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return ::unlink(path.c_str()) == 0;  // Still under the lock, see above.
}

}  // namespace

ShmFile::~ShmFile() {
  if (!file_.valid()) return;
  if (::unlink(path_.c_str()) != 0) {
    Log().Warn("cannot remove {}: {}", path_, port::ErrorText(errno));
  }
}

Status ShmFile::Create(const std::string& name, uint64_t bytes, ShmFile* file) {
  DLSM_RETURN_IF_ERROR(CheckRoom(bytes, /*made=*/false));
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    ShmFile made;
    made.path_ = NewPath(name);
    made.file_ = FileDescriptor(
        ::open(made.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made.file_.valid()) {
      if (errno == EEXIST) continue;
      if (IsOutOfDescriptors(errno)) return CannotOpen(made.path_, errno);
      return Status::IOError(
          fmt::format("cannot create {}: {}", made.path_, port::ErrorText(errno)));
    }
    if (!LockAsOwner(made.descriptor())) {
      made.file_.Close();  // The name is the sweeper's now.
      continue;
    }
    if (::ftruncate(made.descriptor(), static_cast<off_t>(bytes)) != 0) {
      return Status::IOError(fmt::format("cannot give {} {} bytes: {}; ask for less", made.path_,
                                         bytes, port::ErrorText(errno)));
    }
    DLSM_RETURN_IF_ERROR(CheckRoom(bytes, /*made=*/true));
    *file = std::move(made);
    return Status::OK();
  }
  return Status::IOError(
      fmt::format("cannot create a file in {}: its names keep vanishing; what "
                  "else removes files there?",
                  kFolder));
}

int RemoveStaleShmFiles() {
  int removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kFolder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!IsOurs(path) || !RemoveIfStale(path)) continue;
    Log().Info("removed {}, which a killed memory node left", path);
    ++removed;
  }
  return removed;
}

Status OpenShmFile(const std::string& path, uint64_t bytes, FileDescriptor* file) {
  // Peers tell paths: only names that a memory node would have made are opened.
  if (!IsOurs(path) && !path.ends_with(kFileOfDirectory)) {
    return Status::InvalidArgument(fmt::format("\"{}\" is no memory node's file ({}/{}*, *{})",
                                               path, kFolder, kPrefix, kFileOfDirectory));
  }
  FileDescriptor opened(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!opened.valid() && errno == ENOENT) {
    return Status::IOError(fmt::format(
        "{} is not on this machine: if the Server runs on another one, use the tcp fabric", path));
  }
  if (!opened.valid() && IsOutOfDescriptors(errno)) return CannotOpen(path, errno);
  if (!opened.valid()) {
    return Status::IOError(
        fmt::format("cannot open {}: {}; run as the Server's user, or use the tcp fabric", path,
                    port::ErrorText(errno)));
  }
  struct stat attributes {};
  if (::fstat(opened.get(), &attributes) != 0 || !S_ISREG(attributes.st_mode) ||
      static_cast<uint64_t>(attributes.st_size) < bytes) {
    return Status::IOError(
        fmt::format("{} does not hold the {} bytes that its memory node told of", path, bytes));
  }
  if (::flock(opened.get(), LOCK_SH | LOCK_NB) == 0) {
    return Status::IOError(fmt::format("the Server that made {} is gone; start one", path));
  }
  *file = std::move(opened);
  return Status::OK();
}

}  // namespace dlsm
