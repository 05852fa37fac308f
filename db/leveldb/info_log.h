// The lines that a database writes about its life: opened, closed, warnings.
#pragma once

#include <memory>
#include <string>

#include "db/leveldb/place.h"
#include "leveldb/env.h"
#include "leveldb/options.h"

namespace dlsm::compat {

// They go to Options::info_log or, if that is null, to the file LOG of the directory, as in
// LevelDB. Without either they are lost. Thread-safe, as Loggers are.
class InfoLog {
 public:
  // The directory exists.
  static InfoLog Open(const leveldb::Options& options, const Place& place);

  void Write(const std::string& line) const { leveldb::Log(logger_, "%s", line.c_str()); }

 private:
  leveldb::Logger* logger_ = nullptr;  // The program's, or file_. May be null.
  std::unique_ptr<leveldb::Logger> file_;
};

}  // namespace dlsm::compat
