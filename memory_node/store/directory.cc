#include "memory_node/store/directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "memory_node/store/begin_contents.h"
#include "port/clock.h"
#include "port/error_text.h"
#include "util/format_bytes.h"
#include "util/log.h"
#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr std::string_view kLockName = "/LOCK";
constexpr std::string_view kAccountsName = "/accounts.db";
// Clients map the file: they take this name alone (OpenShmFile).
constexpr std::string_view kRegionName = "/dlsm-memory";
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kReadAheadBytes = 16 << 20;
// Of the disk: what the region may not have. Otherwise a database that has filled the disk could
// not be opened to delete something.
constexpr uint64_t kKeptForAccountsBytes = 16 << 20;
constexpr auto kToldPeriod = std::chrono::seconds(2);

Status CannotUse(const std::string& path, const char* what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  const std::string text = fmt::format("cannot {} {}: {}; {}", what, path, port::ErrorText(error),
                                       full              ? "make room on its disk"
                                       : error == ENOENT ? "make the directory that it is to be in"
                                       : error == EACCES || error == EPERM || error == EROFS
                                           ? "give this process the right to write there"
                                           : "is its disk in order?");
  return full ? Status::Busy(text) : Status::IOError(text);
}

// A number that another boot of this machine does not have.
std::string MachineBoot() {
  const std::string text = TextOf("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

// Where the kernel tells no number, a power failure cannot be excluded.
bool IsOfMachineBoot(const StoredContents& contents, const std::string& machine_boot) {
  return !machine_boot.empty() && contents.machine_boot == machine_boot;
}

Status CutOff(const std::string& region_path, uint64_t bytes, uint64_t before) {
  return Status::Corruption(fmt::format(
      "{} has {} bytes and should have {}: it was cut off; restore the directory from a copy, or "
      "begin with an empty one",
      region_path, bytes, before));
}

// The directory entry of a file that was just made.
Status PersistEntries(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || ::fsync(folder.get()) != 0) return CannotUse(path, "synchronise", errno);
  return Status::OK();
}

}  // namespace

Directory::Directory(std::string path)
    : path_(std::move(path)), region_path_(path_ + std::string(kRegionName)) {}

Directory::~Directory() = default;

Status Directory::MakeOrCheckFolder() {
  if (::mkdir(path_.c_str(), 0700) == 0) {
    const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
    return PersistEntries(parent.empty() ? "." : parent.string());
  }
  if (errno != EEXIST) return CannotUse(path_, "make the directory", errno);
  struct stat attributes {};
  if (::stat(path_.c_str(), &attributes) != 0) return CannotUse(path_, "use", errno);
  if (!S_ISDIR(attributes.st_mode)) {
    return Status::InvalidArgument(fmt::format("{} is no directory; name one", path_));
  }
  if (IsAt(path_)) return Status::OK();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // A making that was cut short has left these.
    if (name == kLockName.substr(1) || name.starts_with(kAccountsName.substr(1)) ||
        name == kRegionName.substr(1)) {
      continue;
    }
    return Status::InvalidArgument(fmt::format(
        "{} has other files ({}) and none of a memory node; name an empty directory, or "
        "one that does not exist",
        path_, name));
  }
  if (error) return CannotUse(path_, "read", error.value());
  return Status::OK();
}

Status Directory::Lock() {
  const std::string path = path_ + std::string(kLockName);
  lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_.valid()) {
    if (IsOutOfDescriptors(errno)) return CannotOpen(path, errno);
    return CannotUse(path, "open", errno);
  }
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t got = ::pread(lock_.get(), holder, sizeof(holder) - 1, 0);
    const std::string process = got > 0 ? std::string(holder, static_cast<size_t>(got)) : "";
    return Status::Busy(
        fmt::format("{} is in use by another process{}; close it there, or name another directory",
                    path_, process.empty() ? "" : " (" + process + ")"));
  }
  const std::string process = fmt::format("{}", ::getpid());
  if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), process.data(), process.size(),
                                                   0) != static_cast<ssize_t>(process.size())) {
    Log().Warn("cannot write this process's number to {}: {}", path, port::ErrorText(errno));
  }
  return Status::OK();
}

// SQLite would let others read it, and it has clients' tokens.
Status Directory::MakeAccounts() {
  const std::string path = path_ + std::string(kAccountsName);
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.valid()) return Status::OK();
  if (IsOutOfDescriptors(errno)) return CannotOpen(path, errno);
  return CannotUse(path, "open", errno);
}

Status Directory::OpenRegion(bool may_write) {
  const int flags = (may_write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW;
  region_ = FileDescriptor(::open(region_path_.c_str(), flags, 0600));
  if (!region_.valid()) {
    if (IsOutOfDescriptors(errno)) return CannotOpen(region_path_, errno);
    return CannotUse(region_path_, "open", errno);
  }
  // Its lock tells clients that the memory node lives (OpenShmFile).
  if (may_write && ::flock(region_.get(), LOCK_EX | LOCK_NB) != 0) {
    return CannotUse(region_path_, "lock", errno);
  }
  return Status::OK();
}

Status Directory::LoadRows(Opened* opened) {
  StoredRows& rows = opened->rows;
  DLSM_RETURN_IF_ERROR(accounts_->Load(&rows));
  const auto damaged = [this](const Status& status) {
    return Status::Corruption(
        fmt::format("{}{}: {}; restore the directory from a copy, or begin with an empty one",
                    path_, kAccountsName, status.message().ToStringView()));
  };
  const auto contents = rows.find({StoredKind::kContents, 0});
  if (contents == rows.end()) {
    opened->made = true;
    if (rows.empty()) return Status::OK();
    return damaged(Status::Corruption("the row of the contents is missing"));
  }
  const Status decoded = StoredContents::Decode(contents->second, &opened->contents);
  if (!decoded.ok()) return damaged(decoded);
  const Status state = StoredState::Decode(rows, opened->contents.capacity_bytes, &opened->state);
  return state.ok() ? state : damaged(state);
}

Status Directory::FitRegion(const DirectoryOptions& options, const Opened& opened,
                            uint64_t* capacity_bytes) {
  struct stat attributes {};
  if (::fstat(region_.get(), &attributes) != 0) return CannotUse(region_path_, "use", errno);
  const auto bytes = static_cast<uint64_t>(attributes.st_size);
  const uint64_t before = opened.contents.capacity_bytes;
  if (bytes < before) {
    return CutOff(region_path_, bytes, before);
  }
  uint64_t wanted = options.capacity_bytes;
  if (wanted == 0) wanted = opened.made ? options.new_capacity_bytes : before;
  if (wanted < before) {
    for (const StoredDatabase& database : opened.state.databases) {
      for (const StoredReason& reason : database.reasons) {
        if (reason.ranges.empty() || reason.ranges.back().end <= wanted) continue;
        return Status::InvalidArgument(
            fmt::format("{} has data beyond {}; give this memory node {} again", path_,
                        FormatBytes(wanted), FormatBytes(before)));
      }
    }
  }
  *capacity_bytes = wanted;
  // Never made shorter: a client that maps it would be killed.
  if (bytes < wanted && ::ftruncate(region_.get(), static_cast<off_t>(wanted)) != 0) {
    return CannotUse(region_path_, "lengthen", errno);
  }
  return Status::OK();
}

Status Directory::BeginContents(const DirectoryOptions& options, Opened* opened) {
  BeginOptions begin;
  DLSM_RETURN_IF_ERROR(FitRegion(options, *opened, &begin.capacity_bytes));
  begin.machine_boot = options.machine_boot.empty() ? MachineBoot() : options.machine_boot;
  begin.clients_outlive = options.clients_outlive;
  begin.made = opened->made;
  DLSM_RETURN_IF_ERROR(dlsm::BeginContents(begin, &opened->contents, &opened->resumed));
  if (!opened->made) return Status::OK();  // The keeper writes them with its first rows.
  // So that the files are known to be a memory node's. Nothing was stored in any boot yet.
  StoredContents made = opened->contents;
  made.machine_boot.clear();
  StoredChanges changes;
  changes.written.emplace_back(StoredKey{StoredKind::kContents, 0}, made.Encode());
  if (::fdatasync(region_.get()) != 0) return CannotUse(region_path_, "synchronise", errno);
  DLSM_RETURN_IF_ERROR(accounts_->Write(changes, /*persist=*/true));
  return PersistEntries(path_);
}

Status Directory::Open(const DirectoryOptions& options, Opened* opened,
                       std::unique_ptr<Directory>* directory) {
  if (options.path.empty()) return Status::InvalidArgument("a directory has a name");
  std::unique_ptr<Directory> made(new Directory(options.path));
  DLSM_RETURN_IF_ERROR(made->MakeOrCheckFolder());
  DLSM_RETURN_IF_ERROR(made->Lock());
  DLSM_RETURN_IF_ERROR(made->MakeAccounts());
  DLSM_RETURN_IF_ERROR(AccountsFile::Open(made->path_ + std::string(kAccountsName),
                                          AccountsFile::Mode::kReadWrite, &made->accounts_));
  DLSM_RETURN_IF_ERROR(made->LoadRows(opened));
  DLSM_RETURN_IF_ERROR(made->OpenRegion(/*may_write=*/true));
  DLSM_RETURN_IF_ERROR(made->BeginContents(options, opened));
  *directory = std::move(made);
  return Status::OK();
}

bool Directory::IsAt(const std::string& path) {
  return ::access((path + std::string(kAccountsName)).c_str(), F_OK) == 0;
}

Status Directory::Inspect(const std::string& path, Opened* opened,
                          std::unique_ptr<Directory>* directory) {
  std::unique_ptr<Directory> made(new Directory(path));
  const std::string accounts = path + std::string(kAccountsName);
  if (!IsAt(path)) {
    return Status::InvalidArgument(fmt::format("{} is no directory of a memory node: it has no {}",
                                               path, kAccountsName.substr(1)));
  }
  DLSM_RETURN_IF_ERROR(made->Lock());
  DLSM_RETURN_IF_ERROR(
      AccountsFile::Open(accounts, AccountsFile::Mode::kReadWrite, &made->accounts_));
  DLSM_RETURN_IF_ERROR(made->accounts_->Check());
  DLSM_RETURN_IF_ERROR(made->LoadRows(opened));
  DLSM_RETURN_IF_ERROR(made->OpenRegion(/*may_write=*/false));
  struct stat attributes {};
  if (::fstat(made->region_.get(), &attributes) != 0) {
    return CannotUse(made->region_path_, "use", errno);
  }
  if (static_cast<uint64_t>(attributes.st_size) < opened->contents.capacity_bytes) {
    return CutOff(made->region_path_, static_cast<uint64_t>(attributes.st_size),
                  opened->contents.capacity_bytes);
  }
  opened->resumed = IsOfMachineBoot(opened->contents, MachineBoot());
  *directory = std::move(made);
  return Status::OK();
}

Status Directory::ReadAhead(const StoredState& state) {
  std::vector<StoredRange> ranges;
  uint64_t total = 0;
  for (const StoredDatabase& database : state.databases) {
    for (const StoredReason& reason : database.reasons) {
      for (const StoredRange& range : reason.ranges) {
        ranges.push_back(range);
        total += range.end - range.begin;
      }
    }
  }
  std::ranges::sort(ranges, {}, &StoredRange::begin);
  uint64_t done = 0;
  auto told_at = port::Clock::now();
  for (const StoredRange& range : ranges) {
    for (uint64_t at = range.begin; at < range.end; at += kReadAheadBytes) {
      const uint64_t bytes = std::min(kReadAheadBytes, range.end - at);
      // The next piece is on its way while the page tables of this one are filled.
      static_cast<void>(::posix_fadvise(region_.get(), static_cast<off_t>(at),
                                        static_cast<off_t>(2 * bytes), POSIX_FADV_WILLNEED));
      const uint64_t begin = at / kPageBytes * kPageBytes;
      // Unlike a load, it says so where a page cannot be read. Older kernels do not know it.
      if (::madvise(data_ + begin, at + bytes - begin, MADV_POPULATE_READ) != 0 &&
          errno != EINVAL) {
        return CannotUse(region_path_, "read", errno == EFAULT ? EIO : errno);
      }
      done += bytes;
      if (port::Clock::now() < told_at + kToldPeriod) continue;
      told_at = port::Clock::now();
      Log().Info("{}: {} of {} read", path_, FormatBytes(done), FormatBytes(total));
    }
  }
  return Status::OK();
}

Status Directory::Write(const StoredChanges& changes, bool persist) {
  return accounts_->Write(changes, persist);
}

Status Directory::PersistBytes() {
  if (::fdatasync(region_.get()) == 0) return Status::OK();
  return CannotUse(region_path_, "synchronise", errno);
}

Status Directory::PersistBytes(uint64_t offset, uint64_t bytes) {
  if (data_ == nullptr || offset > data_bytes_ || bytes > data_bytes_ - offset) {
    return PersistBytes();
  }
  const uint64_t begin = offset / kPageBytes * kPageBytes;
  if (::msync(data_ + begin, offset + bytes - begin, MS_SYNC) == 0) return Status::OK();
  return CannotUse(region_path_, "synchronise", errno);
}

Status Directory::TakeDisk(uint64_t offset, uint64_t bytes) {
  if (FreeDiskBytes() < bytes) return CannotUse(region_path_, "take room for", ENOSPC);
  int result = 0;
  do {
    result = ::fallocate(region_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  // A file system that cannot promise room is used without the promise.
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return Status::OK();
  return CannotUse(region_path_, "take room for", errno);
}

void Directory::GiveBackDisk(uint64_t offset, uint64_t bytes) {
  // Without it the file stays larger than it need be, and nothing else is wrong.
  static_cast<void>(::fallocate(region_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset), static_cast<off_t>(bytes)));
}

uint64_t Directory::FreeDiskBytes() {
  struct statvfs space {};
  if (::fstatvfs(region_.get(), &space) != 0) return UINT64_MAX;
  const uint64_t bytes = uint64_t{space.f_bavail} * space.f_frsize;
  return bytes > kKeptForAccountsBytes ? bytes - kKeptForAccountsBytes : 0;
}

}  // namespace dlsm
