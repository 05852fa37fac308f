// The file that a backup is written into: under a temporary name until it is complete.
//
//   Create()   makes PATH.tmp and locks it; what a killed process left there is overwritten
//   Append()   goes through a buffer
//   Commit()   fsync of the file, rename to PATH, fsync of the folder
//
// An object that is destroyed before that removes PATH.tmp. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/file_descriptor.h"

namespace dlsm {

class BackupFile {
 public:
  // InvalidArgument if `path` names something that is no regular file, Busy while another process
  // or thread writes a backup to it.
  static Status Create(const std::string& path, std::unique_ptr<BackupFile>* file);

  BackupFile(const BackupFile&) = delete;
  BackupFile& operator=(const BackupFile&) = delete;
  ~BackupFile();

  Status Append(const Slice& bytes);
  // Of all that was appended.
  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc_; }
  Status Commit();

 private:
  BackupFile(std::string path, FileDescriptor descriptor)
      : path_(std::move(path)),
        temporary_(TemporaryName(path_)),
        descriptor_(std::move(descriptor)) {}
  static std::string TemporaryName(const std::string& path) { return path + ".tmp"; }
  static Status OpenLocked(const std::string& temporary, FileDescriptor* descriptor);

  Status WriteOut(Slice bytes);
  // IOError of a call that has just failed.
  Status Failed(const char* call) const;

  const std::string path_;
  const std::string temporary_;
  FileDescriptor descriptor_;
  std::string buffer_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
  bool committed_ = false;
};

// The folder that `path` lies in.
std::string FolderOf(const std::string& path);

}  // namespace dlsm
