#include "db/leveldb/file_locks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "db/leveldb/translate.h"
#include "port/mutex.h"
#include "port/per_process.h"
#include "port/process_mark.h"
#include "util/file_descriptor.h"

namespace dlsm::compat {
namespace {

using FileId = std::pair<dev_t, ino_t>;

// The files that this process has locked. The kernel tells only that somebody has.
class LockedFiles {
 public:
  static LockedFiles& Here() {
    static constinit port::PerProcess<LockedFiles> files;
    return files.Here();
  }

  // False if it is there already.
  bool Add(const FileId& file) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return files_.insert(file).second;
  }
  void Remove(const FileId& file) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    files_.erase(file);
  }

 private:
  port::Mutex mutex_;
  std::set<FileId> files_ GUARDED_BY(mutex_);
};

class Held final : public leveldb::FileLock {
 public:
  Held(FileDescriptor file, const FileId& id) : file_(std::move(file)), id_(id) {}
  ~Held() override {
    // A child has neither the lock nor the entry.
    if (!made_by_.IsHere()) return;
    file_.Close();
    LockedFiles::Here().Remove(id_);
  }

 private:
  FileDescriptor file_;
  const FileId id_;
  const port::ProcessMark made_by_;
};

}  // namespace

leveldb::Status LockFile(const std::string& name, std::unique_ptr<leveldb::FileLock>* lock) {
  lock->reset();
  FileDescriptor file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) return SystemError(name, errno);
  struct stat attributes {};
  if (::fstat(file.get(), &attributes) != 0) return SystemError(name, errno);
  const FileId id(attributes.st_dev, attributes.st_ino);
  if (!LockedFiles::Here().Add(id)) {
    return leveldb::Status::IOError("lock " + name, "already held by process");
  }
  // It belongs to the open file, not to the process: if another descriptor of the file is closed,
  // the lock stays.
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_OFD_SETLK, &whole) != 0) {
    const int error = errno;
    LockedFiles::Here().Remove(id);
    return SystemError("lock " + name, error);
  }
  *lock = std::make_unique<Held>(std::move(file), id);
  return leveldb::Status::OK();
}

}  // namespace dlsm::compat
