// Reads a backup from its first byte to its last, and checks all of it on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/backup.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/backup/backup_format.h"

namespace dlsm {

// Where the bytes of a backup come from.
class BackupBytes {
 public:
  virtual ~BackupBytes() = default;
  virtual uint64_t size() const = 0;
  // Sets *to to the `bytes` from `offset` on, which are there according to size().
  virtual Status Read(uint64_t offset, size_t bytes, std::string* to) = 0;
};

// NotFound if there is no such file, InvalidArgument if it is no regular one.
Status OpenBackupBytes(const std::string& path, std::unique_ptr<BackupBytes>* bytes);

// One thread at a time. After an error no call may follow. Every error begins with the file's name,
// and that of the format with the offset, too.
class BackupReader {
 public:
  // Reads header and footer. `name` is what errors call the bytes.
  static Status Open(std::string name, std::unique_ptr<BackupBytes> bytes,
                     std::unique_ptr<BackupReader>* reader);

  // What header and footer say. The counts are known to be right when Next() has come to the end.
  const BackupInfo& info() const { return info_; }

  // The next entry, which stays until the next call. At the end it sets *end instead, and has found
  // all checksums and counts to be right.
  Status Next(Slice* key, Slice* value, bool* end);

 private:
  BackupReader(std::string name, std::unique_ptr<BackupBytes> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  Status ReadHeader();
  Status ReadFooter();
  Status ReadBlock();
  Status CheckEnd() const;
  // Reads on from where the last one ended; the bytes count for the checksum of the file.
  Status ReadOn(size_t bytes, std::string* to);
  uint64_t left() const { return blocks_end_ - offset_; }
  // The error with file and offset before it, and what to do behind it.
  Status At(uint64_t offset, const Status& status) const;

  const std::string name_;
  const std::unique_ptr<BackupBytes> bytes_;
  BackupInfo info_;
  BackupFooter footer_;
  uint64_t blocks_end_ = 0;  // Where the footer begins.
  uint64_t offset_ = 0;      // Of the first byte that was not read yet.
  uint32_t crc_ = 0;         // Of all before it.

  uint64_t block_offset_ = 0;
  std::string header_bytes_;
  std::string stored_;
  std::string buffer_;
  Slice raw_;                  // The rest of the block.
  uint32_t entries_left_ = 0;  // Of the block.
  BackupFooter seen_;
};

}  // namespace dlsm
