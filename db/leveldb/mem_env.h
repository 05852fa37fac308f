// The Env of NewMemEnv(): files in memory, and the names of the databases that are in memory with
// them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "db/leveldb/same_class.h"
#include "leveldb/env.h"
#include "leveldb/status.h"
#include "port/mutex.h"

namespace dlsm::compat {

// Thread-safe. Files that are open stay as they are when they are removed.
class MemEnv final : public leveldb::EnvWrapper {
 public:
  explicit MemEnv(leveldb::Env* base);
  // Destroys its databases, none of which is open.
  ~MemEnv() override;

  // Null if `env`, which may be null, is another one.
  static MemEnv* As(leveldb::Env* env);

  // The name of the database `path` on this process's memory node, where other MemEnvs have theirs.
  std::string NameOf(const std::string& path) LOCKS_EXCLUDED(mutex_);

  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** result) override;
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** result) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** result) override
      LOCKS_EXCLUDED(mutex_);
  leveldb::Status NewAppendableFile(const std::string& name,
                                    leveldb::WritableFile** result) override LOCKS_EXCLUDED(mutex_);
  bool FileExists(const std::string& name) override;
  // Of all directories that were ever named, for there are none.
  leveldb::Status GetChildren(const std::string& directory,
                              std::vector<std::string>* result) override LOCKS_EXCLUDED(mutex_);
  leveldb::Status RemoveFile(const std::string& name) override LOCKS_EXCLUDED(mutex_);
  leveldb::Status CreateDir(const std::string&) override { return leveldb::Status::OK(); }
  leveldb::Status RemoveDir(const std::string&) override { return leveldb::Status::OK(); }
  leveldb::Status GetFileSize(const std::string& name, uint64_t* bytes) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override
      LOCKS_EXCLUDED(mutex_);
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  leveldb::Status GetTestDirectory(std::string* path) override;
  // Its lines are lost.
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** result) override;

 private:
  class File;
  class Reader;
  class RandomReader;
  class Writer;

  static SameClass& Class();
  // Null if there is none.
  std::shared_ptr<File> Find(const std::string& name) LOCKS_EXCLUDED(mutex_);

  const std::string prefix_;  // Of names of databases.

  port::Mutex mutex_;
  std::map<std::string, std::shared_ptr<File>> files_ GUARDED_BY(mutex_);
  std::set<std::string> databases_ GUARDED_BY(mutex_);
};

}  // namespace dlsm::compat
