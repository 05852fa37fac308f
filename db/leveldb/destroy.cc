// leveldb::DestroyDB() and leveldb::RepairDB().
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "dLSM/db.h"
#include "db/leveldb/database.h"
#include "db/leveldb/file_locks.h"
#include "db/leveldb/info_log.h"
#include "db/leveldb/own_options.h"
#include "db/leveldb/place.h"
#include "db/leveldb/translate.h"
#include "leveldb/db.h"
#include "util/file_descriptor.h"

namespace dlsm::compat {
namespace {

// Removes the file if it is there.
leveldb::Status Remove(const std::string& name) {
  if (::unlink(name.c_str()) == 0 || errno == ENOENT) return leveldb::Status::OK();
  return SystemError(name, errno);
}

// Takes the lock that a memory node has while the directory is open, in a program that does not use
// LevelDB's interface for instance.
leveldb::Status LockMemoryNode(const std::string& name, FileDescriptor* file) {
  *file = FileDescriptor(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (file->valid() && ::flock(file->get(), LOCK_EX | LOCK_NB) == 0) return leveldb::Status::OK();
  return SystemError("lock " + name, errno);
}

leveldb::Status RemoveFiles(const Place& place) {
  const std::string accounts = place.path() + kAccounts;
  // The accounts first: without them there is no database any more, whatever else is left.
  for (const std::string& name :
       {accounts, accounts + "-wal", accounts + "-shm", accounts + "-journal",
        place.path() + kRegion, place.path() + kLog, place.path() + kOldLog}) {
    leveldb::Status status = Remove(name);
    if (!status.ok()) return status;
  }
  return leveldb::Status::OK();
}

leveldb::Status DestroyDirectory(const Place& place) {
  if (!place.DirectoryExists()) return leveldb::Status::OK();
  leveldb::Status status = place.CheckFormat();
  if (!status.ok()) return status;
  const std::string lock_name = place.path() + kLock;
  std::unique_ptr<leveldb::FileLock> lock;
  status = LockFile(lock_name, &lock);
  if (!status.ok()) return status;
  FileDescriptor memory_node_lock;
  status = LockMemoryNode(lock_name, &memory_node_lock);
  if (!status.ok()) return status;
  status = RemoveFiles(place);
  if (!status.ok()) return status;
  memory_node_lock.Close();
  lock.reset();
  status = Remove(lock_name);
  // It stays if there are files of others.
  static_cast<void>(::rmdir(place.path().c_str()));
  return status;
}

leveldb::Status Destroy(const leveldb::Options& options, const Place& place) {
  if (place.InDirectory()) return DestroyDirectory(place);
  OwnOptions own(options);
  place.Tell(&own.options());
  const dlsm::Status status = dlsm::DestroyDB(place.name(), own.options());
  if (!status.IsBusy()) return ToLeveldb(status);
  return leveldb::Status::IOError("lock " + place.path(), ToLeveldb(status.message()));
}

leveldb::Status Repair(const leveldb::Options& options, const Place& place) {
  if (place.InDirectory()) {
    if (!place.DirectoryExists()) return SystemError(place.path(), ENOENT);
    leveldb::Status status = place.CheckFormat();
    if (!status.ok()) return status;
    if (!place.HasDatabase()) {
      return leveldb::Status::Corruption(place.path(), "repair found no files");
    }
  }
  leveldb::Options existing = options;
  existing.create_if_missing = false;
  existing.error_if_exists = false;
  std::unique_ptr<Database> database;
  leveldb::Status status = OpenDatabase(existing, place, /*accept_log_loss=*/true, &database);
  if (status.ok()) database->CompactRange(nullptr, nullptr);
  return status;
}

}  // namespace
}  // namespace dlsm::compat

namespace leveldb {

Status DestroyDB(const std::string& name, const Options& options) {
  dlsm::compat::Place place;
  Status status = dlsm::compat::Place::Find(name, options.env, &place);
  return status.ok() ? dlsm::compat::Destroy(options, place) : status;
}

Status RepairDB(const std::string& dbname, const Options& options) {
  dlsm::compat::Place place;
  Status status = dlsm::compat::Place::Find(dbname, options.env, &place);
  return status.ok() ? dlsm::compat::Repair(options, place) : status;
}

}  // namespace leveldb
