// Where a database of a LevelDB program is: in the directory that the program names, or, where the
// environment of the process says so, on memory nodes under that name.
//
//   DLSM_MEMORY_NODES     "host[:port]" of each memory node, separated by commas
//
//   DLSM_CONFIG           or the path of a connection.conf
//
//   DLSM_FABRIC           with one of these: Options::fabric
//   DLSM_SECRET_FILE      likewise: Options::secret_file
//   DLSM_ACCESS_NAME      likewise: Options::access_name
//   DLSM_DIRECTORY_BYTES  the size of the region in a directory
#pragma once

#include <cstdint>
#include <string>

#include "dLSM/options.h"
#include "leveldb/env.h"
#include "leveldb/status.h"

namespace dlsm::compat {

// The name of the database within its directory.
inline constexpr const char* kNameInDirectory = "leveldb";

// The files of a directory, as doc/durability.md lists them. A directory without kAccounts has no
// database.
inline constexpr const char* kAccounts = "/accounts.db";
inline constexpr const char* kRegion = "/dlsm-memory";
inline constexpr const char* kLock = "/LOCK";
// What this room adds.
inline constexpr const char* kLog = "/LOG";
inline constexpr const char* kOldLog = "/LOG.old";

class Place {
 public:
  // With an Env of NewMemEnv() the database is in memory. `env` may be null. InvalidArgument if the
  // environment contradicts itself.
  static leveldb::Status Find(const std::string& path, leveldb::Env* env, Place* place);

  bool InMemory() const { return kind_ == Kind::kMemory; }
  bool InDirectory() const { return kind_ == Kind::kDirectory; }
  // As the program has named it.
  const std::string& path() const { return path_; }
  // The database's name for dlsm::DB::Open().
  const std::string& name() const { return name_; }
  // Sets the options that say where the database is.
  void Tell(dlsm::Options* options) const;

  // Of a directory. Whether it is there; whether it has files of a memory node.
  bool DirectoryExists() const;
  bool HasDatabase() const;
  // InvalidArgument if the directory holds a database of LevelDB's own files.
  leveldb::Status CheckFormat() const;
  // Has the directory taken although it holds other files, as LevelDB takes any directory.
  leveldb::Status Claim() const;

 private:
  enum class Kind { kMemory, kDirectory, kMemoryNodes };

  leveldb::Status ReadEnvironment();
  uint64_t DirectoryBytes() const;

  Kind kind_ = Kind::kDirectory;

  std::string path_;
  std::string name_;
  std::string memory_nodes_;
  std::string config_;
  std::string fabric_;
  std::string secret_file_;
  std::string access_name_;
  uint64_t directory_bytes_ = 0;  // 0: not given.
};

}  // namespace dlsm::compat
