// The directory of a memory node: what makes its contents outlive its process.
//
// * LOCK is locked by the process that has the directory open, and has its number.
// * accounts.db has the rows (accounts_file.h), with accounts.db-wal beside it.
// * dlsm-memory is the region: a sparse file, which is mapped as the region's memory.
//
// Because the region is a mapping of its file, what a client or a fabric thread has stored there is
// in the kernel's page cache, and outlives every process. A power failure takes what was not
// persisted. The two cases are told apart by the kernel's boot id: under the same one, the
// directory is *resumed*, sessions and grants go on, and the boot of the memory node is still the
// same for its clients. Under another one, or with another size, only what manifests name goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "memory_node/store/accounts_file.h"
#include "memory_node/store/node_files.h"
#include "memory_node/store/stored_state.h"
#include "util/file_descriptor.h"

namespace dlsm {

struct DirectoryOptions {
  std::string path;
  // Of the region. 0: what the directory has; for a new one, `new_capacity_bytes`.
  uint64_t capacity_bytes = 0;
  uint64_t new_capacity_bytes = 0;
  // Clients of the process before may still be there. Not where that was their process.
  bool clients_outlive = true;
  // Set by tests; else that of the kernel.
  std::string machine_boot;
};

class Directory final : public NodeFiles {
 public:
  // What a memory node begins with.
  struct Opened {
    StoredContents contents;
    StoredState state;
    StoredRows rows;  // The same as they are in the file.
    // Sessions and grants go on. Inspect() says whether they would with a memory node that is
    // started now; if not, the power may have failed since the directory was open.
    bool resumed = false;
    bool made = false;  // There was none: it is empty.
  };

  // Whether a memory node has its contents at `path`.
  static bool IsAt(const std::string& path);

  // Opens the directory, or makes it. Busy if another process has it open; Corruption that names
  // the file where one is damaged; InvalidArgument where it is of another version, no memory
  // node's, or where what it holds does not fit into capacity_bytes.
  static Status Open(const DirectoryOptions& options, Opened* opened,
                     std::unique_ptr<Directory>* directory);
  // The same for a look at it, while no memory node has it open. Its rows stay as they are, and all
  // pages of their file are checked.
  static Status Inspect(const std::string& path, Opened* opened,
                        std::unique_ptr<Directory>* directory);
  ~Directory() override;

  // The file of the region. It stays open as long as this.
  int region_descriptor() const { return region_.get(); }
  const std::string& region_path() const { return region_path_; }
  // The descriptor is to be mapped at `data`.
  void MappedAt(char* data, uint64_t bytes) {
    data_ = data;
    data_bytes_ = bytes;
  }

  // Reads what the databases have from the disk, so that clients do not wait for that, with a line
  // in the log now and then. IOError that names the file if some of it cannot be read: then it
  // would end the process later. To be called when it is mapped.
  Status ReadAhead(const StoredState& state);

  Status Write(const StoredChanges& changes, bool persist) override;
  Status PersistBytes() override;
  Status PersistBytes(uint64_t offset, uint64_t bytes) override;
  Status TakeDisk(uint64_t offset, uint64_t bytes) override;
  void GiveBackDisk(uint64_t offset, uint64_t bytes) override;
  uint64_t FreeDiskBytes() override;
  const std::string& name() const override { return path_; }

 private:
  explicit Directory(std::string path);

  Status MakeOrCheckFolder();
  Status Lock();
  Status MakeAccounts();
  Status OpenRegion(bool may_write);
  Status LoadRows(Opened* opened);
  // *capacity_bytes: what the region has from now on.
  Status FitRegion(const DirectoryOptions& options, const Opened& opened, uint64_t* capacity_bytes);
  Status BeginContents(const DirectoryOptions& options, Opened* opened);

  const std::string path_;
  const std::string region_path_;
  FileDescriptor lock_;
  FileDescriptor region_;
  std::unique_ptr<AccountsFile> accounts_;
  char* data_ = nullptr;  // Null if the region is not mapped.
  uint64_t data_bytes_ = 0;
};

}  // namespace dlsm
