#include "db/serve/backups.h"

#include <system_error>
#include <utility>

#include "dLSM/backup.h"
#include "db/serve/event_loop.h"
#include "port/thread_name.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm::serve {

Backups::~Backups() {
  port::Thread writer;
  {
    const port::MutexLock lock(mutex_);
    while (running_) ended_.Wait();
    writer = std::move(writer_);
  }
  if (writer.joinable()) writer.join();
}

Status Backups::Claim() {
  if (path_.empty()) {
    return Status::NotSupported("this server has no directory for backups",
                                "start dlsm_serve with --backup_dir");
  }
  port::Thread before;
  {
    const port::MutexLock lock(mutex_);
    if (running_) return Status::Busy("another backup is under way");
    running_ = true;
    before = std::move(writer_);
  }
  if (before.joinable()) before.join();  // It has ended, or is about to.
  return Status::OK();
}

Status Backups::Write() {
  DLSM_RETURN_IF_ERROR(Claim());
  return WriteAndTell(db_.GetSnapshot());
}

Status Backups::Begin() {
  DLSM_RETURN_IF_ERROR(Claim());
  const Snapshot* const snapshot = db_.GetSnapshot();
  const port::MutexLock lock(mutex_);
  try {
    writer_ = port::Thread([this, snapshot] {
      port::SetThreadName("dlsm backup");
      const Status status = WriteAndTell(snapshot);
      if (!status.ok()) Log().Error("the backup has failed: {}", status.ToString());
    });
  } catch (const std::system_error& error) {
    db_.ReleaseSnapshot(snapshot);
    running_ = false;
    return Status::IOError("no thread for the backup", error.what());
  }
  return Status::OK();
}

Status Backups::WriteAndTell(const Snapshot* snapshot) {
  BackupOptions options;
  options.snapshot = snapshot;
  Status status = WriteBackup(&db_, options, path_, nullptr);
  db_.ReleaseSnapshot(snapshot);
  const port::MutexLock lock(mutex_);
  if (status.ok()) last_ = UnixMilliseconds() / 1000;
  last_status_ = status;
  running_ = false;
  ended_.SignalAll();
  return status;
}

Backups::Progress Backups::progress() const {
  const port::MutexLock lock(mutex_);
  return {running_, last_, last_status_};
}

}  // namespace dlsm::serve
