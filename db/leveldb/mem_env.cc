#include "db/leveldb/mem_env.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "db/leveldb/translate.h"
#include "leveldb/helpers/memenv.h"
#include "util/log.h"

namespace dlsm::compat {
namespace {

leveldb::Status NoSuchFile(const std::string& name) { return SystemError(name, ENOENT); }

std::string NewPrefix() {
  static constinit std::atomic<uint64_t> number{0};
  return fmt::format("memenv{}:", number.fetch_add(1, std::memory_order_relaxed));
}

class SilentLogger final : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

class NamedLock final : public leveldb::FileLock {};

}  // namespace

// The bytes of a file. Thread-safe.
class MemEnv::File {
 public:
  // Up to `n` bytes from `offset` on, which *result then shows in `scratch`.
  void Read(uint64_t offset, size_t n, leveldb::Slice* result, char* scratch) const {
    const port::MutexLock lock(mutex_);
    const size_t begin = std::min<uint64_t>(offset, bytes_.size());
    *result = leveldb::Slice(scratch, bytes_.copy(scratch, n, begin));
  }
  void Append(const leveldb::Slice& data) {
    const port::MutexLock lock(mutex_);
    bytes_.append(data.data(), data.size());
  }
  uint64_t size() const {
    const port::MutexLock lock(mutex_);
    return bytes_.size();
  }

 private:
  mutable port::Mutex mutex_;
  std::string bytes_ GUARDED_BY(mutex_);
};

class MemEnv::Reader final : public leveldb::SequentialFile {
 public:
  explicit Reader(std::shared_ptr<File> file) : file_(std::move(file)) {}
  leveldb::Status Read(size_t n, leveldb::Slice* result, char* scratch) override {
    file_->Read(at_, n, result, scratch);
    at_ += result->size();
    return leveldb::Status::OK();
  }
  leveldb::Status Skip(uint64_t n) override {
    at_ += std::min(n, file_->size() - std::min(at_, file_->size()));
    return leveldb::Status::OK();
  }

 private:
  const std::shared_ptr<File> file_;
  uint64_t at_ = 0;
};

class MemEnv::RandomReader final : public leveldb::RandomAccessFile {
 public:
  explicit RandomReader(std::shared_ptr<File> file) : file_(std::move(file)) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    file_->Read(offset, n, result, scratch);
    return leveldb::Status::OK();
  }

 private:
  const std::shared_ptr<File> file_;
};

class MemEnv::Writer final : public leveldb::WritableFile {
 public:
  explicit Writer(std::shared_ptr<File> file) : file_(std::move(file)) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    file_->Append(data);
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

 private:
  const std::shared_ptr<File> file_;
};

MemEnv::MemEnv(leveldb::Env* base) : EnvWrapper(base), prefix_(NewPrefix()) { Class().Is(this); }

MemEnv::~MemEnv() {
  for (const std::string& name : databases_) {
    const dlsm::Status status = dlsm::DestroyDB(name, dlsm::Options());
    if (!status.ok()) {
      dlsm::Log().Warn("a database in memory stays until the process ends: {}", status.ToString());
    }
  }
}

SameClass& MemEnv::Class() {
  static constinit SameClass mem_env;
  return mem_env;
}

MemEnv* MemEnv::As(leveldb::Env* env) {
  return env != nullptr && Class().Has(env) ? static_cast<MemEnv*>(env) : nullptr;
}

std::string MemEnv::NameOf(const std::string& path) {
  const std::string name = prefix_ + path;
  const port::MutexLock lock(mutex_);
  databases_.insert(name);
  return name;
}

std::shared_ptr<MemEnv::File> MemEnv::Find(const std::string& name) {
  const port::MutexLock lock(mutex_);
  const auto found = files_.find(name);
  return found == files_.end() ? nullptr : found->second;
}

leveldb::Status MemEnv::NewSequentialFile(const std::string& name,
                                          leveldb::SequentialFile** result) {
  std::shared_ptr<File> file = Find(name);
  *result = file == nullptr ? nullptr : std::make_unique<Reader>(std::move(file)).release();
  return *result == nullptr ? NoSuchFile(name) : leveldb::Status::OK();
}

leveldb::Status MemEnv::NewRandomAccessFile(const std::string& name,
                                            leveldb::RandomAccessFile** result) {
  std::shared_ptr<File> file = Find(name);
  *result = file == nullptr ? nullptr : std::make_unique<RandomReader>(std::move(file)).release();
  return *result == nullptr ? NoSuchFile(name) : leveldb::Status::OK();
}

leveldb::Status MemEnv::NewWritableFile(const std::string& name, leveldb::WritableFile** result) {
  const port::MutexLock lock(mutex_);
  std::shared_ptr<File>& file = files_[name];
  file = std::make_shared<File>();
  *result = std::make_unique<Writer>(file).release();
  return leveldb::Status::OK();
}

leveldb::Status MemEnv::NewAppendableFile(const std::string& name, leveldb::WritableFile** result) {
  const port::MutexLock lock(mutex_);
  std::shared_ptr<File>& file = files_[name];
  if (file == nullptr) file = std::make_shared<File>();
  *result = std::make_unique<Writer>(file).release();
  return leveldb::Status::OK();
}

bool MemEnv::FileExists(const std::string& name) { return Find(name) != nullptr; }

leveldb::Status MemEnv::GetChildren(const std::string& directory,
                                    std::vector<std::string>* result) {
  result->clear();
  const std::string begin = directory + "/";
  const port::MutexLock lock(mutex_);
  for (auto file = files_.lower_bound(begin);
       file != files_.end() && file->first.starts_with(begin); ++file) {
    result->push_back(file->first.substr(begin.size()));
  }
  return leveldb::Status::OK();
}

leveldb::Status MemEnv::RemoveFile(const std::string& name) {
  const port::MutexLock lock(mutex_);
  return files_.erase(name) > 0 ? leveldb::Status::OK() : NoSuchFile(name);
}

leveldb::Status MemEnv::GetFileSize(const std::string& name, uint64_t* bytes) {
  const std::shared_ptr<File> file = Find(name);
  *bytes = file == nullptr ? 0 : file->size();
  return file == nullptr ? NoSuchFile(name) : leveldb::Status::OK();
}

leveldb::Status MemEnv::RenameFile(const std::string& from, const std::string& to) {
  const port::MutexLock lock(mutex_);
  auto moved = files_.extract(from);
  if (moved.empty()) return NoSuchFile(from);
  files_.erase(to);
  moved.key() = to;
  files_.insert(std::move(moved));
  return leveldb::Status::OK();
}

leveldb::Status MemEnv::LockFile(const std::string&, leveldb::FileLock** lock) {
  *lock = std::make_unique<NamedLock>().release();
  return leveldb::Status::OK();
}

leveldb::Status MemEnv::UnlockFile(leveldb::FileLock* lock) {
  const std::unique_ptr<leveldb::FileLock> deleted(lock);
  return leveldb::Status::OK();
}

leveldb::Status MemEnv::GetTestDirectory(std::string* path) {
  *path = "/test";
  return leveldb::Status::OK();
}

leveldb::Status MemEnv::NewLogger(const std::string&, leveldb::Logger** result) {
  *result = std::make_unique<SilentLogger>().release();
  return leveldb::Status::OK();
}

}  // namespace dlsm::compat

namespace leveldb {

Env* NewMemEnv(Env* base_env) { return std::make_unique<dlsm::compat::MemEnv>(base_env).release(); }

}  // namespace leveldb
