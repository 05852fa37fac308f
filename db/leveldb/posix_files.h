// Files of the operating system behind LevelDB's interface.
#pragma once

#include <memory>
#include <string>

#include "leveldb/env.h"
#include "leveldb/status.h"

namespace dlsm::compat {

leveldb::Status OpenSequentialFile(const std::string& name,
                                   std::unique_ptr<leveldb::SequentialFile>* file);
leveldb::Status OpenRandomAccessFile(const std::string& name,
                                     std::unique_ptr<leveldb::RandomAccessFile>* file);
// `append` keeps what the file has; otherwise it begins empty.
leveldb::Status OpenWritableFile(const std::string& name, bool append,
                                 std::unique_ptr<leveldb::WritableFile>* file);
leveldb::Status OpenLogger(const std::string& name, std::unique_ptr<leveldb::Logger>* logger);

}  // namespace dlsm::compat
