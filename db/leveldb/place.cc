#include "db/leveldb/place.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "db/leveldb/mem_env.h"
#include "db/leveldb/translate.h"
#include "util/file_descriptor.h"

namespace dlsm::compat {
namespace {

// Of a new directory's region, at most. It is a sparse file, which is mapped: this bounds how many
// databases a process may have open, because addresses have 47 bits. 256 GiB are enough for 500.
constexpr uint64_t kRegionBytesMax = uint64_t{256} << 30;
constexpr uint64_t kRegionBytesMin = uint64_t{1} << 30;

// Of the largest batch. LevelDB bounds none. The log takes room as it is used, and memtables are
// flushed long before it has this size.
constexpr uint64_t kLogBytesMax = uint64_t{512} << 20;

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsThere(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

leveldb::Status ParseBytes(const std::string& text, uint64_t* bytes) {
  if (text.empty()) return leveldb::Status::OK();
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *bytes);
  if (parsed.ec == std::errc() && parsed.ptr == end && *bytes >= kRegionBytesMin) {
    return leveldb::Status::OK();
  }
  return leveldb::Status::InvalidArgument(fmt::format(
      "DLSM_DIRECTORY_BYTES is '{}'; set it to a number of bytes from {} on, or unset it", text,
      kRegionBytesMin));
}

}  // namespace

leveldb::Status Place::Find(const std::string& path, leveldb::Env* env, Place* place) {
  place->path_ = path;
  if (MemEnv* const in_memory = MemEnv::As(env); in_memory != nullptr) {
    place->kind_ = Kind::kMemory;
    place->name_ = in_memory->NameOf(path);
    return leveldb::Status::OK();
  }
  leveldb::Status status = place->ReadEnvironment();
  place->name_ = place->InDirectory() ? kNameInDirectory : path;
  return status;
}

leveldb::Status Place::ReadEnvironment() {
  memory_nodes_ = FromEnvironment("DLSM_MEMORY_NODES");
  config_ = FromEnvironment("DLSM_CONFIG");
  fabric_ = FromEnvironment("DLSM_FABRIC");
  secret_file_ = FromEnvironment("DLSM_SECRET_FILE");
  access_name_ = FromEnvironment("DLSM_ACCESS_NAME");
  if (!memory_nodes_.empty() || !config_.empty()) kind_ = Kind::kMemoryNodes;
  if (InDirectory()) {
    if (!fabric_.empty()) {
      return leveldb::Status::InvalidArgument(
          "DLSM_FABRIC is set, and neither DLSM_MEMORY_NODES nor DLSM_CONFIG",
          "set one of these, too, or unset it");
    }
    return ParseBytes(FromEnvironment("DLSM_DIRECTORY_BYTES"), &directory_bytes_);
  }
  if (!memory_nodes_.empty() && !config_.empty()) {
    return leveldb::Status::InvalidArgument("DLSM_MEMORY_NODES and DLSM_CONFIG are both set",
                                            "unset one of them");
  }
  return leveldb::Status::OK();
}

void Place::Tell(dlsm::Options* options) const {
  if (InMemory()) return;
  options->log_bytes_max = kLogBytesMax;
  if (!InDirectory()) {
    options->memory_nodes = memory_nodes_;
    options->config = config_;
    options->fabric = fabric_;
    options->secret_file = secret_file_;
    options->access_name = access_name_;
    return;
  }
  options->embedded_dir = path_;
  options->embedded_memory_bytes = DirectoryBytes();
  options->log = dlsm::LogLevel::kDisk;
}

uint64_t Place::DirectoryBytes() const {
  if (directory_bytes_ != 0) return directory_bytes_;
  std::error_code error;
  const uint64_t before = std::filesystem::file_size(path_ + kRegion, error);
  if (!error && before != 0) return 0;  // It keeps its size.
  const std::filesystem::space_info disk = std::filesystem::space(path_, error);
  if (error) return kRegionBytesMin;
  return std::clamp(disk.capacity / kRegionBytesMin * kRegionBytesMin, kRegionBytesMin,
                    kRegionBytesMax);
}

bool Place::DirectoryExists() const { return IsThere(path_); }

bool Place::HasDatabase() const {
  std::error_code error;
  return std::filesystem::file_size(path_ + kAccounts, error) > 0 && !error;
}

leveldb::Status Place::CheckFormat() const {
  if (HasDatabase()) return leveldb::Status::OK();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "CURRENT" && !name.starts_with("MANIFEST-")) continue;
    return leveldb::Status::InvalidArgument(
        path_,
        fmt::format("holds a database in LevelDB's own format ({}), which this library does "
                    "not read: copy its entries with a program that is linked to LevelDB, or "
                    "name another directory",
                    name));
  }
  return leveldb::Status::OK();
}

leveldb::Status Place::Claim() const {
  if (IsThere(path_ + kAccounts)) return leveldb::Status::OK();
  // As a directory looks whose making was cut short. A memory node goes on from there, whatever
  // other files there are.
  const std::string name = path_ + kAccounts;
  const FileDescriptor made(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return made.valid() ? leveldb::Status::OK() : SystemError(name, errno);
}

}  // namespace dlsm::compat
