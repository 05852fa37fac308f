#include "db/leveldb/posix_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "db/leveldb/translate.h"
#include "util/file_descriptor.h"

namespace dlsm::compat {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

// Repeats `read`, a function of what is still missing and where it goes, until it has `n` bytes or
// the file ends.
template <typename Read>
leveldb::Status ReadFully(const std::string& name, size_t n, char* scratch, const Read& read,
                          leveldb::Slice* result) {
  size_t got = 0;
  while (got < n) {
    const ssize_t bytes = read(scratch + got, n - got, got);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      *result = leveldb::Slice(scratch, 0);
      return SystemError(name, errno);
    }
    if (bytes == 0) break;
    got += static_cast<size_t>(bytes);
  }
  *result = leveldb::Slice(scratch, got);
  return leveldb::Status::OK();
}

class Sequential final : public leveldb::SequentialFile {
 public:
  Sequential(std::string name, FileDescriptor file)
      : name_(std::move(name)), file_(std::move(file)) {}

  leveldb::Status Read(size_t n, leveldb::Slice* result, char* scratch) override {
    return ReadFully(
        name_, n, scratch,
        [this](char* to, size_t bytes, size_t) { return ::read(file_.get(), to, bytes); }, result);
  }
  leveldb::Status Skip(uint64_t n) override {
    if (::lseek(file_.get(), static_cast<off_t>(n), SEEK_CUR) >= 0) return leveldb::Status::OK();
    return SystemError(name_, errno);
  }

 private:
  const std::string name_;
  const FileDescriptor file_;
};

class RandomAccess final : public leveldb::RandomAccessFile {
 public:
  RandomAccess(std::string name, FileDescriptor file)
      : name_(std::move(name)), file_(std::move(file)) {}

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    return ReadFully(
        name_, n, scratch,
        [this, offset](char* to, size_t bytes, size_t got) {
          return ::pread(file_.get(), to, bytes, static_cast<off_t>(offset + got));
        },
        result);
  }

 private:
  const std::string name_;
  const FileDescriptor file_;
};

class Writable final : public leveldb::WritableFile {
 public:
  Writable(std::string name, FileDescriptor file) : name_(std::move(name)), file_(std::move(file)) {
    buffer_.reserve(kBufferBytes);
  }
  ~Writable() override {
    if (file_.valid()) static_cast<void>(Close());
  }

  leveldb::Status Append(const leveldb::Slice& data) override {
    if (buffer_.size() + data.size() > kBufferBytes) {
      leveldb::Status status = Flush();
      if (!status.ok()) return status;
      if (data.size() >= kBufferBytes) return Write(data.data(), data.size());
    }
    buffer_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Flush() override {
    leveldb::Status status = Write(buffer_.data(), buffer_.size());
    buffer_.clear();
    return status;
  }
  leveldb::Status Sync() override {
    leveldb::Status status = Flush();
    if (status.ok() && ::fdatasync(file_.get()) != 0) status = SystemError(name_, errno);
    return status;
  }
  leveldb::Status Close() override {
    leveldb::Status status = Flush();
    if (::close(file_.Release()) != 0 && status.ok()) status = SystemError(name_, errno);
    return status;
  }

 private:
  leveldb::Status Write(const char* data, size_t bytes) {
    while (bytes > 0) {
      const ssize_t written = ::write(file_.get(), data, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return SystemError(name_, errno);
      data += written;
      bytes -= static_cast<size_t>(written);
    }
    return leveldb::Status::OK();
  }

  const std::string name_;
  FileDescriptor file_;
  std::string buffer_;
};

// Opens `name` and makes a File of it, or leaves *file null.
template <typename File, typename Base>
leveldb::Status Open(const std::string& name, int flags, std::unique_ptr<Base>* file) {
  FileDescriptor opened(::open(name.c_str(), flags | O_CLOEXEC, 0644));
  if (!opened.valid()) {
    file->reset();
    return SystemError(name, errno);
  }
  *file = std::make_unique<File>(name, std::move(opened));
  return leveldb::Status::OK();
}

}  // namespace

leveldb::Status OpenSequentialFile(const std::string& name,
                                   std::unique_ptr<leveldb::SequentialFile>* file) {
  return Open<Sequential>(name, O_RDONLY, file);
}

leveldb::Status OpenRandomAccessFile(const std::string& name,
                                     std::unique_ptr<leveldb::RandomAccessFile>* file) {
  return Open<RandomAccess>(name, O_RDONLY, file);
}

leveldb::Status OpenWritableFile(const std::string& name, bool append,
                                 std::unique_ptr<leveldb::WritableFile>* file) {
  return Open<Writable>(name, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC), file);
}

}  // namespace dlsm::compat
