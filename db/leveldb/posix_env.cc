// leveldb::Env::Default(): the operating system.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "db/leveldb/background_queue.h"
#include "db/leveldb/file_locks.h"
#include "db/leveldb/posix_files.h"
#include "db/leveldb/translate.h"
#include "leveldb/env.h"
#include "port/clock.h"
#include "port/per_process.h"
#include "util/log.h"

namespace dlsm::compat {
namespace {

// What a call of the operating system returned: 0 is success.
leveldb::Status Outcome(const std::string& name, int result) {
  return result == 0 ? leveldb::Status::OK() : SystemError(name, errno);
}

// Gives what `open` opens to a caller that deletes it.
template <typename File, typename Open>
leveldb::Status HandOver(const Open& open, File** result) {
  std::unique_ptr<File> file;
  leveldb::Status status = open(&file);
  *result = file.release();
  return status;
}

class PosixEnv final : public leveldb::Env {
 public:
  leveldb::Status NewSequentialFile(const std::string& fname,
                                    leveldb::SequentialFile** result) override {
    return HandOver([&](auto* file) { return OpenSequentialFile(fname, file); }, result);
  }
  leveldb::Status NewRandomAccessFile(const std::string& fname,
                                      leveldb::RandomAccessFile** result) override {
    return HandOver([&](auto* file) { return OpenRandomAccessFile(fname, file); }, result);
  }
  leveldb::Status NewWritableFile(const std::string& fname,
                                  leveldb::WritableFile** result) override {
    return HandOver([&](auto* file) { return OpenWritableFile(fname, /*append=*/false, file); },
                    result);
  }
  leveldb::Status NewAppendableFile(const std::string& fname,
                                    leveldb::WritableFile** result) override {
    return HandOver([&](auto* file) { return OpenWritableFile(fname, /*append=*/true, file); },
                    result);
  }
  leveldb::Status NewLogger(const std::string& fname, leveldb::Logger** result) override {
    return HandOver([&](auto* logger) { return OpenLogger(fname, logger); }, result);
  }

  bool FileExists(const std::string& fname) override { return ::access(fname.c_str(), F_OK) == 0; }
  leveldb::Status GetChildren(const std::string& dir, std::vector<std::string>* result) override {
    *result = {".", ".."};  // LevelDB lists these two as well.
    std::error_code error;
    for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
         entry.increment(error)) {
      result->push_back(entry->path().filename().string());
    }
    if (!error) return leveldb::Status::OK();
    result->clear();
    return SystemError(dir, error.value());
  }
  leveldb::Status RemoveFile(const std::string& fname) override {
    return Outcome(fname, ::unlink(fname.c_str()));
  }
  leveldb::Status CreateDir(const std::string& dirname) override {
    return Outcome(dirname, ::mkdir(dirname.c_str(), 0755));
  }
  leveldb::Status RemoveDir(const std::string& dirname) override {
    return Outcome(dirname, ::rmdir(dirname.c_str()));
  }
  leveldb::Status GetFileSize(const std::string& fname, uint64_t* file_size) override {
    struct stat attributes {};
    leveldb::Status status = Outcome(fname, ::stat(fname.c_str(), &attributes));
    *file_size = static_cast<uint64_t>(attributes.st_size);
    return status;
  }
  leveldb::Status RenameFile(const std::string& src, const std::string& target) override {
    return Outcome(src, std::rename(src.c_str(), target.c_str()));
  }

  leveldb::Status LockFile(const std::string& fname, leveldb::FileLock** lock) override {
    return HandOver([&](auto* held) { return compat::LockFile(fname, held); }, lock);
  }
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override {
    const std::unique_ptr<leveldb::FileLock> unlocked(lock);
    return leveldb::Status::OK();
  }

  void Schedule(void (*function)(void*), void* arg) override {
    background_.Here().Add(function, arg);
  }
  void StartThread(void (*function)(void*), void* arg) override {
    if (RunInNewThread(function, arg)) return;
    dlsm::Log().Warn(
        "Env::StartThread: this process can have no more threads; the function runs when those "
        "that were given to Env::Schedule have");
    Schedule(function, arg);
  }
  leveldb::Status GetTestDirectory(std::string* path) override {
    const char* const given = std::getenv("TEST_TMPDIR");
    *path = given != nullptr && *given != '\0' ? given
                                               : fmt::format("/tmp/leveldbtest-{}", ::geteuid());
    // It may be there already.
    static_cast<void>(CreateDir(*path));
    return leveldb::Status::OK();
  }

  uint64_t NowMicros() override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }
  void SleepForMicroseconds(int micros) override {
    if (micros > 0) port::SleepFor(std::chrono::microseconds(micros));
  }

 private:
  port::PerProcess<BackgroundQueue> background_;
};

}  // namespace
}  // namespace dlsm::compat

namespace leveldb {

Env* Env::Default() {
  // Never destroyed: its thread may be at work until the process ends.
  static Env& env = *std::make_unique<dlsm::compat::PosixEnv>().release();
  return &env;
}

}  // namespace leveldb
