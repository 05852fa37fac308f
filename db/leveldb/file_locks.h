// Locks of files, by which one database at a time has a directory.
#pragma once

#include <memory>
#include <string>

#include "leveldb/env.h"
#include "leveldb/status.h"

namespace dlsm::compat {

// Locks the file `name`, which is made if it is missing, until *lock is destroyed. IOError at once
// if this process or another has locked it. Other names of the file are the same file. A child that
// fork() makes does not have the locks of its parent. Thread-safe.
leveldb::Status LockFile(const std::string& name, std::unique_ptr<leveldb::FileLock>* lock);

}  // namespace dlsm::compat
