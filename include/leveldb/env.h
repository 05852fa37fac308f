// What a program asks of the operating system: files, threads and time. Thread-safe. A program may
// have an Env of its own, mostly an EnvWrapper; doc/leveldb.md says what a database uses it for.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class FileLock;
class Logger;
class RandomAccessFile;
class SequentialFile;
class Slice;
class WritableFile;

class LEVELDB_EXPORT Env {
 public:
  Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  virtual ~Env();

  // That of the operating system. The library's; never deleted.
  static Env* Default();

  // On success *result is the caller's to delete; else it is null. NotFound if there is no such
  // file.
  virtual Status NewSequentialFile(const std::string& fname, SequentialFile** result) = 0;
  virtual Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) = 0;
  // An empty file, whatever there was before.
  virtual Status NewWritableFile(const std::string& fname, WritableFile** result) = 0;
  // A file to write behind what there is. NotSupported unless it is overridden.
  virtual Status NewAppendableFile(const std::string& fname, WritableFile** result);

  virtual bool FileExists(const std::string& fname) = 0;
  // The names of what is in the directory, without its path.
  virtual Status GetChildren(const std::string& dir, std::vector<std::string>* result) = 0;
  // Of each of these two pairs, an Env overrides at least one. The second is the older name.
  virtual Status RemoveFile(const std::string& fname);
  virtual Status DeleteFile(const std::string& fname);
  virtual Status CreateDir(const std::string& dirname) = 0;
  virtual Status RemoveDir(const std::string& dirname);
  virtual Status DeleteDir(const std::string& dirname);
  virtual Status GetFileSize(const std::string& fname, uint64_t* file_size) = 0;
  virtual Status RenameFile(const std::string& src, const std::string& target) = 0;

  // Locks the file, which is made if it is missing. Returns an error at once if it is locked, by
  // this process or another. The caller gives *lock to UnlockFile().
  virtual Status LockFile(const std::string& fname, FileLock** lock) = 0;
  virtual Status UnlockFile(FileLock* lock) = 0;

  // Calls function(arg) once, in a thread of the Env.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;
  // Calls function(arg) in a new thread, which ends with it.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;
  // A directory for tests, which exists then.
  virtual Status GetTestDirectory(std::string* path) = 0;
  // Writes lines to a file, with the time of each.
  virtual Status NewLogger(const std::string& fname, Logger** result) = 0;
  // Since some moment in the past.
  virtual uint64_t NowMicros() = 0;
  virtual void SleepForMicroseconds(int micros) = 0;
};

// A file that is read from its begin to its end. One thread at a time uses it.
class LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;
  virtual ~SequentialFile();

  // Up to `n` bytes; fewer only at the end. *result may point into scratch[0, n).
  virtual Status Read(size_t n, Slice* result, char* scratch) = 0;
  virtual Status Skip(uint64_t n) = 0;
};

// A file that is read at any place. Thread-safe.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  virtual ~RandomAccessFile();

  // Up to `n` bytes from `offset` on; fewer only at the end. *result may point into scratch[0, n).
  virtual Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const = 0;
};

// A file that is written from its begin to its end. One thread at a time uses it.
class LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  virtual ~WritableFile();

  virtual Status Append(const Slice& data) = 0;
  virtual Status Close() = 0;
  // Gives the operating system what was appended.
  virtual Status Flush() = 0;
  // The same, and returns when it is on disk.
  virtual Status Sync() = 0;
};

class LEVELDB_EXPORT Logger {
 public:
  Logger() = default;
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  virtual ~Logger();

  // One entry, formatted as by vprintf().
  virtual void Logv(const char* format, std::va_list ap) = 0;
};

// A file that is locked.
class LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  virtual ~FileLock();
};

// Does nothing if `info_log` is null.
LEVELDB_EXPORT void Log(Logger* info_log, const char* format, ...)
#if defined(__GNUC__)
    __attribute__((__format__(__printf__, 2, 3)))
#endif
    ;

LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname);
LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& fname, std::string* data);

// Passes every call on to another Env. A program overrides those that it wants to be different.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  // `t` stays the caller's, and outlives this.
  explicit EnvWrapper(Env* t) : target_(t) {}
  virtual ~EnvWrapper();

  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& f, SequentialFile** r) override {
    return target_->NewSequentialFile(f, r);
  }
  Status NewRandomAccessFile(const std::string& f, RandomAccessFile** r) override {
    return target_->NewRandomAccessFile(f, r);
  }
  Status NewWritableFile(const std::string& f, WritableFile** r) override {
    return target_->NewWritableFile(f, r);
  }
  Status NewAppendableFile(const std::string& f, WritableFile** r) override {
    return target_->NewAppendableFile(f, r);
  }
  bool FileExists(const std::string& f) override { return target_->FileExists(f); }
  Status GetChildren(const std::string& dir, std::vector<std::string>* r) override {
    return target_->GetChildren(dir, r);
  }
  Status RemoveFile(const std::string& f) override { return target_->RemoveFile(f); }
  Status CreateDir(const std::string& d) override { return target_->CreateDir(d); }
  Status RemoveDir(const std::string& d) override { return target_->RemoveDir(d); }
  Status GetFileSize(const std::string& f, uint64_t* s) override {
    return target_->GetFileSize(f, s);
  }
  Status RenameFile(const std::string& s, const std::string& t) override {
    return target_->RenameFile(s, t);
  }
  Status LockFile(const std::string& f, FileLock** l) override { return target_->LockFile(f, l); }
  Status UnlockFile(FileLock* l) override { return target_->UnlockFile(l); }
  void Schedule(void (*f)(void*), void* a) override { target_->Schedule(f, a); }
  void StartThread(void (*f)(void*), void* a) override { target_->StartThread(f, a); }
  Status GetTestDirectory(std::string* path) override { return target_->GetTestDirectory(path); }
  Status NewLogger(const std::string& fname, Logger** result) override {
    return target_->NewLogger(fname, result);
  }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  void SleepForMicroseconds(int micros) override { target_->SleepForMicroseconds(micros); }

 private:
  Env* target_;
};

}  // namespace leveldb
