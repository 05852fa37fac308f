// The files of a memory node, as the rest of it sees them: rows that describe its accounts, and the
// bytes of its region. Directory (directory.h) has them on a disk, a simulation in memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/store/stored_state.h"

namespace dlsm {

// Rows that are to be as they are here, all or none of them.
struct StoredChanges {
  std::vector<std::pair<StoredKey, std::string>> written;
  std::vector<StoredKey> removed;

  bool empty() const { return written.empty() && removed.empty(); }
};

// There are two levels of safety. Bytes that are *stored* outlive every process. Bytes that are
// *persisted* outlive a power failure, too.
//
// A write to the region is stored at once, because the region is a mapping of a file.
// Thread-safe, but Write(), which one thread calls at a time. Errors name the directory. Busy: the
// disk is full, and the call can be tried again when it is not. Any other error: nothing that comes
// later may be believed, and the caller changes nothing any more. An error of PersistBytes() is
// always such.
class NodeFiles {
 public:
  virtual ~NodeFiles() = default;

  // The changes are stored, and persisted with all rows that were written before if `persist` says
  // so.
  virtual Status Write(const StoredChanges& changes, bool persist) = 0;
  // Persists the bytes that were stored in the region before the call: all of them, or this range.
  virtual Status PersistBytes() = 0;
  virtual Status PersistBytes(uint64_t offset, uint64_t bytes) = 0;
  // Writing this range of the region will not fail for want of room on the disk.
  virtual Status TakeDisk(uint64_t offset, uint64_t bytes) = 0;
  // Nobody needs these bytes any more. The disk gets their room back as far as it can.
  virtual void GiveBackDisk(uint64_t offset, uint64_t bytes) = 0;
  // How many more bytes of the region the disk can take; UINT64_MAX if that is not known.
  virtual uint64_t FreeDiskBytes() = 0;
  // For messages.
  virtual const std::string& name() const = 0;
};

}  // namespace dlsm
