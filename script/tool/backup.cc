#include "script/tool/backup.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>

#include "dLSM/backup.h"
#include "dLSM/db.h"
#include "script/tool/tool.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace dlsm::tool {

namespace {

Status CheckIsSomewhere(const Options& database) {
  if (!database.config.empty() || !database.memory_nodes.empty() ||
      !database.embedded_dir.empty()) {
    return Status::OK();
  }
  return Status::InvalidArgument(
      "there is no database without --memory_nodes, --config or "
      "--data_dir",
      "give one of them");
}

Status StillBusy(const BackupCommand& command, const Status& open, const Status& follow) {
  std::string message = fmt::format("database {}: {}", command.name, open.message().ToStringView());
  if (!follow.ok()) {
    message += fmt::format("; and it cannot be followed: {}", follow.message().ToStringView());
  }
  return Status::Busy(message,
                      "stop the process that has it open, call WriteBackup() in that process, or, "
                      "on a Server, have it open the database with publish_interval_ms");
}

// The database, or if another process has it open, a follower of it.
Status OpenToRead(const BackupCommand& command, std::unique_ptr<DB>* db, bool* follows) {
  Options options = command.database;
  options.create_if_missing = false;
  *follows = false;
  const Status open = DB::Open(options, command.name, db);
  if (!open.IsBusy()) return open;
  if (!options.embedded_dir.empty()) return StillBusy(command, open, Status::OK());
  options.open_timeout_ms = command.publication_timeout_ms;
  const Status follow = DB::OpenFollower(options, command.name, db);
  if (!follow.ok()) return StillBusy(command, open, follow);
  *follows = true;
  return Status::OK();
}

std::string Described(const BackupInfo& info) {
  return fmt::format("{} entries with {:.1f} MB in {} blocks, file of {:.1f} MB", info.entries,
                     static_cast<double>(info.bytes) / 1e6, info.blocks,
                     static_cast<double>(info.file_bytes) / 1e6);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Status BackUp(const BackupCommand& command, std::ostream* out) {
  const auto start = std::chrono::steady_clock::now();
  DLSM_RETURN_IF_ERROR(CheckIsSomewhere(command.database));
  DLSM_RETURN_IF_ERROR(CheckIsThere(command.database.embedded_dir));
  std::unique_ptr<DB> db;
  bool follows = false;
  DLSM_RETURN_IF_ERROR(OpenToRead(command, &db, &follows));
  BackupOptions options;
  options.compression = command.compress ? kSnappyCompression : kNoCompression;
  BackupInfo info;
  Status status = WriteBackup(db.get(), options, command.file, &info);
  KeepFirstError(db->Close(), &status);
  DLSM_RETURN_IF_ERROR(status);
  *out << fmt::format("backup: {}, {:.2f} s{}\n", Described(info), SecondsSince(start),
                      follows ? ", of what its owner had published" : "");
  return Status::OK();
}

Status Restore(const BackupCommand& command, std::ostream* out) {
  const auto start = std::chrono::steady_clock::now();
  DLSM_RETURN_IF_ERROR(CheckIsSomewhere(command.database));
  RestoreOptions options;
  options.overwrite = command.overwrite;
  BackupInfo info;
  DLSM_RETURN_IF_ERROR(RestoreBackup(command.file, command.database, command.name, options, &info));
  *out << fmt::format("restore: {}, {:.2f} s\n", Described(info), SecondsSince(start));
  return Status::OK();
}

Status CheckBackupFile(const std::string& file, std::ostream* out) {
  BackupInfo info;
  DLSM_RETURN_IF_ERROR(CheckBackup(file, &info));
  *out << fmt::format("check-backup: {}, checksums good\nversion {}\nwritten-unix-seconds {}\n",
                      Described(info), info.version, info.written_unix_micros / 1'000'000);
  *out << fmt::format("comparator {}\nfilter-policy {}\nshards {}\n", info.comparator,
                      info.filter_policy.empty() ? "none" : info.filter_policy,
                      info.shard_boundaries.size() + 1);
  for (const std::string& boundary : info.shard_boundaries) {
    std::string escaped;
    AppendEscaped(&escaped, boundary);
    *out << fmt::format("boundary {}\n", escaped);
  }
  return Status::OK();
}

}  // namespace dlsm::tool
