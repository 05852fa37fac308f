// Files in /dev/shm that hold the memory of memory nodes.
//
// A file is named dlsm-<name>-<pid>-<random>. Its owner holds an exclusive lock on it for as long
// as it lives; the kernel drops the lock when the owner dies, however it dies. So a file whose lock
// can be taken is stale, and whoever takes it may remove it; it removes it before letting the lock
// go, so no one can lock a name that is about to vanish without noticing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "util/file_descriptor.h"

namespace dlsm {

// The owner's side; removes the file when destroyed.
class ShmFile {
 public:
  ShmFile() = default;
  ShmFile(ShmFile&&) noexcept = default;
  ShmFile& operator=(ShmFile&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~ShmFile();

  // A sparse file of `bytes`. Fails when /dev/shm has not as much room left, beside what files of
  // other owners that are alive have not taken yet.
  static Status Create(const std::string& name, uint64_t bytes, ShmFile* file);

  int descriptor() const { return file_.get(); }
  const std::string& path() const { return path_; }

 private:
  FileDescriptor file_;
  std::string path_;
};

// Removes what owners that are gone have left. Returns how many files that were.
int RemoveStaleShmFiles();

// A peer's side: opens the file of an owner that is alive, at least `bytes` large. It may also be
// the file of a memory node's directory, wherever that is.
Status OpenShmFile(const std::string& path, uint64_t bytes, FileDescriptor* file);

}  // namespace dlsm
