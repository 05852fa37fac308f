// The rows of a memory node's accounts, in an SQLite database of one table.
//
// SQLite writes a journal of whole transactions ahead of the table, so a transaction is there or
// not, whatever ends the process or the machine. A commit that is to be persisted has the journal
// synchronised, and with it all commits before; others are in the kernel's page cache when they
// return. The file is locked for as long as it is open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "memory_node/store/node_files.h"
#include "memory_node/store/stored_state.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dlsm {

// One thread at a time.
class AccountsFile {
 public:
  // Of the file, and of what its rows say. A directory of another version is not served.
  static constexpr int kFormatVersion = 1;

  enum class Mode { kReadOnly, kReadWrite };

  // Opens the file; makes one where there is none, if it may write. Corruption where the file is
  // damaged, InvalidArgument where it is of another version, IOError for what else fails.
  static Status Open(const std::string& path, Mode mode, std::unique_ptr<AccountsFile>* file);
  ~AccountsFile();

  // All rows; their checksums are not looked at.
  Status Load(StoredRows* rows);
  // Busy if the disk is full: nothing has changed then.
  Status Write(const StoredChanges& changes, bool persist);
  // What SQLite says of its own pages: Corruption, naming the file.
  Status Check();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  explicit AccountsFile(std::string path) : path_(std::move(path)) {}

  Status Prepare();
  Status CheckVersion(Mode mode);
  Status Run(const char* sql);
  Status RunAll(const StoredChanges& changes, bool persist);
  Status MakeStatement(const char* sql, Statement* statement);
  // What the last call returned, as a Status that names the file and a remedy.
  Status ToStatus(int result, const char* what) const;

  const std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
  Statement put_;
  Statement remove_;
  bool persists_ = true;  // What the file's commits do at present.
};

}  // namespace dlsm
