// The verbs backup, restore and check-backup of dlsm_tool, which name a file on the command line.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "dLSM/options.h"
#include "dLSM/status.h"

namespace dlsm::tool {

struct BackupCommand {
  Options database;
  std::string name;
  std::string file;
  bool compress = true;    // backup.
  bool overwrite = false;  // restore.
  // backup, of a database that another process has open: how long to wait for a publication.
  uint64_t publication_timeout_ms = 5000;
};

// Copies the database into the file. One that another process has open is copied as a follower sees
// it; Busy, which says what can be done, where that cannot be.
Status BackUp(const BackupCommand& command, std::ostream* out);
// Writes the file into the database, which is made if it is missing.
Status Restore(const BackupCommand& command, std::ostream* out);
// Reads all of the file, and prints what it holds.
Status CheckBackupFile(const std::string& file, std::ostream* out);

}  // namespace dlsm::tool
