#include "db/backup/backup_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "port/error_text.h"
#include "util/checksum.h"
#include "util/file_descriptor.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

class FileBytes final : public BackupBytes {
 public:
  FileBytes(std::string path, FileDescriptor descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), size_(size) {}

  uint64_t size() const override { return size_; }

  Status Read(uint64_t offset, size_t bytes, std::string* to) override {
    to->resize(bytes);
    size_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::pread(descriptor_.get(), to->data() + done, bytes - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return Status::IOError(fmt::format("backup {}: cannot be read at offset {}: {}", path_,
                                           offset + done, port::ErrorText(errno)),
                               "check the disk, or take another copy of the file");
      }
      if (got == 0) {
        return Status::Corruption(
            fmt::format("backup {}: offset {}: the file became shorter while it was read", path_,
                        offset + done));
      }
      done += static_cast<size_t>(got);
    }
    return Status::OK();
  }

 private:
  const std::string path_;
  const FileDescriptor descriptor_;
  const uint64_t size_;
};

}  // namespace

Status OpenBackupBytes(const std::string& path, std::unique_ptr<BackupBytes>* bytes) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) {
    const int error = errno;
    if (IsOutOfDescriptors(error)) return CannotOpen("a backup", error);
    if (error == ENOENT || error == ENOTDIR) {
      return Status::NotFound(fmt::format("backup {}: there is no such file", path),
                              "name a file that WriteBackup() has written");
    }
    return Status::IOError(fmt::format("backup {}: {}", path, port::ErrorText(error)),
                           "let this user read it");
  }
  struct stat present {};
  if (::fstat(descriptor.get(), &present) != 0 || !S_ISREG(present.st_mode)) {
    return Status::InvalidArgument(fmt::format("backup {}: that is no regular file", path),
                                   "name a file that WriteBackup() has written");
  }
  *bytes = std::make_unique<FileBytes>(path, std::move(descriptor),
                                       static_cast<uint64_t>(present.st_size));
  return Status::OK();
}

Status BackupReader::At(uint64_t offset, const Status& status) const {
  std::string message =
      fmt::format("backup {}: offset {}: {}", name_, offset, status.message().ToStringView());
  if (status.IsCorruption()) message += ": use another backup, or another copy of this one";
  return Status::FromCode(status.code(), message);
}

Status BackupReader::Open(std::string name, std::unique_ptr<BackupBytes> bytes,
                          std::unique_ptr<BackupReader>* reader) {
  std::unique_ptr<BackupReader> made(new BackupReader(std::move(name), std::move(bytes)));
  DLSM_RETURN_IF_ERROR(made->ReadHeader());
  *reader = std::move(made);
  return Status::OK();
}

Status BackupReader::ReadOn(size_t bytes, std::string* to) {
  DLSM_RETURN_IF_ERROR(bytes_->Read(offset_, bytes, to));
  crc_ = Crc32cExtend(crc_, to->data(), to->size());
  offset_ += bytes;
  return Status::OK();
}

// The header first: a file of another kind is to be called that, not a truncated one.
Status BackupReader::ReadHeader() {
  info_.file_bytes = bytes_->size();
  blocks_end_ = info_.file_bytes;
  DLSM_RETURN_IF_ERROR(
      ReadOn(static_cast<size_t>(std::min<uint64_t>(left(), kBackupHeaderBytes)), &header_bytes_));
  BackupHeader header;
  if (const Status status = header.Decode(header_bytes_); !status.ok()) return At(0, status);
  if (header.facts_bytes > left()) {
    return At(info_.file_bytes, Status::Corruption("the file ends within its header"));
  }
  DLSM_RETURN_IF_ERROR(ReadOn(header.facts_bytes, &stored_));
  if (const Status status = DecodeBackupFacts(header, stored_, &info_); !status.ok()) {
    return At(0, status);
  }
  return ReadFooter();
}

Status BackupReader::ReadFooter() {
  if (left() < kBackupFooterBytes) {
    return At(info_.file_bytes, Status::Corruption("the file is truncated"));
  }
  blocks_end_ -= kBackupFooterBytes;
  DLSM_RETURN_IF_ERROR(bytes_->Read(blocks_end_, kBackupFooterBytes, &stored_));
  if (const Status status = footer_.Decode(stored_); !status.ok()) return At(blocks_end_, status);
  info_.blocks = footer_.blocks;
  info_.entries = footer_.entries;
  info_.bytes = footer_.bytes;
  return Status::OK();
}

Status BackupReader::ReadBlock() {
  block_offset_ = offset_;
  if (left() < kBackupBlockHeaderBytes) {
    return At(offset_, Status::Corruption("the blocks end within the header of one"));
  }
  DLSM_RETURN_IF_ERROR(ReadOn(kBackupBlockHeaderBytes, &header_bytes_));
  BackupBlockHeader header;
  if (const Status status = header.Decode(header_bytes_); !status.ok()) {
    return At(block_offset_, status);
  }
  if (header.stored_bytes > left()) {
    return At(block_offset_, Status::Corruption("a block is longer than the file"));
  }
  DLSM_RETURN_IF_ERROR(ReadOn(header.stored_bytes, &stored_));
  const Status status = OpenBackupBlock(header, header_bytes_, stored_, &buffer_, &raw_);
  if (!status.ok()) return At(block_offset_, status);
  entries_left_ = header.entries;
  ++seen_.blocks;
  return Status::OK();
}

Status BackupReader::CheckEnd() const {
  if (crc_ != footer_.file_crc) {
    return At(blocks_end_, Status::Corruption("the file has not the checksum that its footer has"));
  }
  if (seen_.blocks != footer_.blocks || seen_.entries != footer_.entries ||
      seen_.bytes != footer_.bytes) {
    return At(blocks_end_,
              Status::Corruption(
                  fmt::format("the footer tells of {} entries in {} blocks, but there are {} in {}",
                              footer_.entries, footer_.blocks, seen_.entries, seen_.blocks)));
  }
  return Status::OK();
}

Status BackupReader::Next(Slice* key, Slice* value, bool* end) {
  *end = false;
  if (entries_left_ == 0) {
    if (!raw_.empty()) {
      return At(block_offset_, Status::Corruption("a block has more than its entries"));
    }
    if (left() == 0) {
      *end = true;
      return CheckEnd();
    }
    DLSM_RETURN_IF_ERROR(ReadBlock());
  }
  if (!TakeBackupEntry(&raw_, key, value)) {
    return At(block_offset_, Status::Corruption("an entry of a block is damaged"));
  }
  --entries_left_;
  ++seen_.entries;
  seen_.bytes += key->size() + value->size();
  return Status::OK();
}

}  // namespace dlsm
