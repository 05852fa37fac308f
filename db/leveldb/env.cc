// What the classes of leveldb/env.h have besides an operating system: bases, and functions over
// any Env.
#include "leveldb/env.h"

#include <cstdarg>
#include <memory>
#include <string>
#include <vector>

#include "leveldb/slice.h"

namespace leveldb {

Env::Env() = default;
Env::~Env() = default;
SequentialFile::~SequentialFile() = default;
RandomAccessFile::~RandomAccessFile() = default;
WritableFile::~WritableFile() = default;
Logger::~Logger() = default;
FileLock::~FileLock() = default;
EnvWrapper::~EnvWrapper() = default;

Status Env::NewAppendableFile(const std::string& fname, WritableFile** result) {
  *result = nullptr;
  return Status::NotSupported("this Env appends to no files", fname);
}

// Each Env overrides one of these two names, an older one the second.
Status Env::RemoveFile(const std::string& fname) { return DeleteFile(fname); }
Status Env::DeleteFile(const std::string& fname) { return RemoveFile(fname); }
Status Env::RemoveDir(const std::string& dirname) { return DeleteDir(dirname); }
Status Env::DeleteDir(const std::string& dirname) { return RemoveDir(dirname); }

void Log(Logger* info_log, const char* format, ...) {
  if (info_log == nullptr) return;
  std::va_list arguments;
  va_start(arguments, format);
  info_log->Logv(format, arguments);
  va_end(arguments);
}

Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname) {
  WritableFile* opened = nullptr;
  Status status = env->NewWritableFile(fname, &opened);
  if (!status.ok()) return status;
  std::unique_ptr<WritableFile> file(opened);
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  file.reset();
  // Half a file is worse than none.
  if (!status.ok()) static_cast<void>(env->RemoveFile(fname));
  return status;
}

Status ReadFileToString(Env* env, const std::string& fname, std::string* data) {
  data->clear();
  SequentialFile* opened = nullptr;
  Status status = env->NewSequentialFile(fname, &opened);
  if (!status.ok()) return status;
  const std::unique_ptr<SequentialFile> file(opened);
  std::vector<char> buffer(8192);
  while (true) {
    Slice piece;
    status = file->Read(buffer.size(), &piece, buffer.data());
    if (!status.ok() || piece.empty()) return status;
    data->append(piece.data(), piece.size());
  }
}

}  // namespace leveldb
