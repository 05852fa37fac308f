// Env::Default(), and Envs of programs.
#include "leveldb/env.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "db/leveldb/leveldb_testing.h"
#include "leveldb/db.h"
#include "leveldb/helpers/memenv.h"
#include "port/mutex.h"
#include "port/thread_sanitizer.h"
#include "util/child_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::compat {
namespace {

class EnvTest : public testing::Test {
 protected:
  leveldb::Env& env_ = *leveldb::Env::Default();
  TemporaryDirectory directory_;
  const std::string file_ = directory_ / "file";
};

TEST_F(EnvTest, WritesAndReadsFiles) {
  EXPECT_FALSE(env_.FileExists(file_));
  leveldb::WritableFile* opened = nullptr;
  ASSERT_FINE(env_.NewWritableFile(file_, &opened));
  std::unique_ptr<leveldb::WritableFile> writable(opened);
  // Small pieces are gathered; a large one is written at once.
  std::string expected;
  for (const size_t bytes : {1u, 10u, 70000u, 65536u, 65535u, 3u}) {
    const std::string piece(bytes, static_cast<char>('a' + bytes % 26));
    EXPECT_FINE(writable->Append(piece));
    expected += piece;
  }
  EXPECT_FINE(writable->Sync());
  uint64_t bytes = 0;
  ASSERT_FINE(env_.GetFileSize(file_, &bytes));
  EXPECT_EQ(bytes, expected.size());
  EXPECT_FINE(writable->Append("end"));
  EXPECT_FINE(writable->Close());
  ASSERT_FINE(env_.NewAppendableFile(file_, &opened));
  writable.reset(opened);
  EXPECT_FINE(writable->Append("more"));
  writable.reset();
  expected += "endmore";
  std::string read;
  ASSERT_FINE(leveldb::ReadFileToString(&env_, file_, &read));
  EXPECT_EQ(read, expected);

  leveldb::SequentialFile* sequential_opened = nullptr;
  ASSERT_FINE(env_.NewSequentialFile(file_, &sequential_opened));
  const std::unique_ptr<leveldb::SequentialFile> sequential(sequential_opened);
  char scratch[100];
  leveldb::Slice got;
  EXPECT_FINE(sequential->Skip(expected.size() - 5));
  EXPECT_FINE(sequential->Read(100, &got, scratch));
  EXPECT_EQ(got.ToString(), "dmore");
  EXPECT_FINE(sequential->Read(100, &got, scratch));
  EXPECT_TRUE(got.empty());

  leveldb::RandomAccessFile* random_opened = nullptr;
  ASSERT_FINE(env_.NewRandomAccessFile(file_, &random_opened));
  const std::unique_ptr<leveldb::RandomAccessFile> random(random_opened);
  EXPECT_FINE(random->Read(1, 3, &got, scratch));
  EXPECT_EQ(got.ToString(), expected.substr(1, 3));
  EXPECT_FINE(random->Read(expected.size() - 2, 10, &got, scratch));
  EXPECT_EQ(got.ToString(), "re");

  ASSERT_FINE(env_.NewWritableFile(file_, &opened));  // From the begin.
  writable.reset(opened);
  writable.reset();
  ASSERT_FINE(env_.GetFileSize(file_, &bytes));
  EXPECT_EQ(bytes, 0u);
}

TEST_F(EnvTest, MissingFilesAreNotFound) {
  leveldb::SequentialFile* sequential = nullptr;
  EXPECT_EQ(env_.NewSequentialFile(file_, &sequential).ToString(),
            "NotFound: " + file_ + ": No such file or directory");
  EXPECT_EQ(sequential, nullptr);
  leveldb::RandomAccessFile* random = nullptr;
  EXPECT_TRUE(env_.NewRandomAccessFile(file_, &random).IsNotFound());
  uint64_t bytes = 0;
  EXPECT_TRUE(env_.GetFileSize(file_, &bytes).IsNotFound());
  EXPECT_TRUE(env_.RemoveFile(file_).IsNotFound());
  std::vector<std::string> names;
  EXPECT_TRUE(env_.GetChildren(file_, &names).IsNotFound());
  EXPECT_TRUE(names.empty());
  EXPECT_TRUE(env_.RenameFile(file_, file_ + "2").IsNotFound());
}

TEST_F(EnvTest, DirectoriesAndNames) {
  const std::string folder = directory_ / "folder";
  EXPECT_FINE(env_.CreateDir(folder));
  EXPECT_TRUE(env_.CreateDir(folder).IsIOError());
  EXPECT_FINE(leveldb::WriteStringToFile(&env_, "1", folder + "/a"));
  EXPECT_FINE(env_.RenameFile(folder + "/a", folder + "/b"));
  std::vector<std::string> names;
  EXPECT_FINE(env_.GetChildren(folder, &names));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".", "..", "b"}));
  EXPECT_TRUE(env_.RemoveDir(folder).IsIOError());
  EXPECT_FINE(env_.DeleteFile(folder + "/b"));  // The older name.
  EXPECT_FINE(env_.DeleteDir(folder));
  EXPECT_FALSE(env_.FileExists(folder));
}

TEST_F(EnvTest, LocksExcludeEachOther) {
  leveldb::FileLock* lock = nullptr;
  ASSERT_FINE(env_.LockFile(file_, &lock));
  leveldb::FileLock* second = nullptr;
  EXPECT_EQ(env_.LockFile(file_, &second).ToString(),
            "IO error: lock " + file_ + ": already held by process");
  EXPECT_EQ(second, nullptr);
  EXPECT_FINE(env_.UnlockFile(lock));
  ASSERT_FINE(env_.LockFile(file_, &lock));
  EXPECT_FINE(env_.UnlockFile(lock));
}

struct Calls {
  port::Mutex mutex;
  port::CondVar changed{mutex};
  std::vector<int> made GUARDED_BY(mutex);

  void WaitFor(size_t count) {
    const port::MutexLock lock(mutex);
    while (made.size() < count) changed.Wait();
  }
};

struct Call {
  Calls* calls;
  int number;

  static void Run(void* argument) {
    const Call& call = *static_cast<Call*>(argument);
    const port::MutexLock lock(call.calls->mutex);
    call.calls->made.push_back(call.number);
    call.calls->changed.Signal();
  }
};

TEST_F(EnvTest, RunsFunctionsInThreads) {
  Calls calls;
  Call scheduled[] = {{&calls, 1}, {&calls, 2}, {&calls, 3}};
  for (Call& call : scheduled) env_.Schedule(&Call::Run, &call);
  calls.WaitFor(3);
  {
    const port::MutexLock lock(calls.mutex);
    EXPECT_EQ(calls.made, (std::vector<int>{1, 2, 3}));
  }
  Call started{&calls, 4};
  env_.StartThread(&Call::Run, &started);
  calls.WaitFor(4);
}

class EnvInChildTest : public EnvTest {
 protected:
  void SetUp() override {
    if (port::kUnderThreadSanitizer) {
      GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
    }
  }
};

// The thread of its parent's does not exist in a child.
TEST_F(EnvInChildTest, ChildHasItsOwnThread) {
  Calls calls;
  Call call{&calls, 1};
  env_.Schedule(&Call::Run, &call);
  calls.WaitFor(1);
  InChild([&] {
    env_.Schedule(&Call::Run, &call);
    calls.WaitFor(2);
  });
}

TEST_F(EnvTest, TellsTheTime) {
  const uint64_t before = env_.NowMicros();
  env_.SleepForMicroseconds(2000);
  EXPECT_GE(env_.NowMicros(), before + 1000);
  env_.SleepForMicroseconds(-1);
}

TEST_F(EnvTest, TestDirectory) {
  const std::string wanted = directory_ / "tests";
  const char* const before = std::getenv("TEST_TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TEST_TMPDIR", wanted.c_str(), 1);
  std::string path;
  EXPECT_FINE(env_.GetTestDirectory(&path));
  EXPECT_EQ(path, wanted);
  EXPECT_TRUE(env_.FileExists(path));
  ::unsetenv("TEST_TMPDIR");
  EXPECT_FINE(env_.GetTestDirectory(&path));
  EXPECT_EQ(path.find("/tmp/leveldbtest-"), 0u);
  if (before != nullptr) ::setenv("TEST_TMPDIR", kept.c_str(), 1);
}

TEST_F(EnvTest, LoggerWritesLines) {
  leveldb::Logger* opened = nullptr;
  ASSERT_FINE(env_.NewLogger(file_, &opened));
  const std::unique_ptr<leveldb::Logger> logger(opened);
  leveldb::Log(logger.get(), "%s is %d", "one", 1);
  leveldb::Log(logger.get(), "%s\n", std::string(5000, 'x').c_str());
  leveldb::Log(logger.get(), "%s", "");
  leveldb::Log(nullptr, "nobody reads this");
  std::string lines;
  ASSERT_FINE(leveldb::ReadFileToString(&env_, file_, &lines));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_NE(lines.find(" one is 1\n"), std::string::npos) << lines;
  EXPECT_EQ(lines.substr(0, 2), "20");
}

// A program's Env that counts, and passes all else on.
class CountingEnv final : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** result) override {
    ++loggers;
    return target()->NewLogger(name, result);
  }
  leveldb::Status RemoveFile(const std::string& name) override {
    ++removed;
    return target()->RemoveFile(name);
  }
  int loggers = 0;
  int removed = 0;
};

TEST_F(EnvTest, EnvsOfPrograms) {
  CountingEnv counting;
  EXPECT_FINE(leveldb::WriteStringToFile(&counting, "1", file_));
  EXPECT_FINE(counting.DeleteFile(file_));  // By way of RemoveFile().
  EXPECT_EQ(counting.removed, 1);
  EXPECT_FALSE(counting.FileExists(file_));
  leveldb::Options options;
  options.create_if_missing = true;
  options.env = &counting;
  leveldb::DB* opened = nullptr;
  ASSERT_FINE(leveldb::DB::Open(options, directory_ / "db", &opened));
  const std::unique_ptr<leveldb::DB> db(opened);
  EXPECT_EQ(counting.loggers, 1);
}

TEST_F(EnvTest, FilesInMemory) {
  const std::unique_ptr<leveldb::Env> memory(leveldb::NewMemEnv(&env_));
  EXPECT_FINE(memory->CreateDir("/dir"));
  EXPECT_FINE(leveldb::WriteStringToFile(memory.get(), "hello", "/dir/f"));
  EXPECT_FALSE(env_.FileExists("/dir/f"));
  leveldb::WritableFile* opened = nullptr;
  ASSERT_FINE(memory->NewAppendableFile("/dir/f", &opened));
  const std::unique_ptr<leveldb::WritableFile> writable(opened);
  EXPECT_FINE(writable->Append(" world"));
  uint64_t bytes = 0;
  EXPECT_FINE(memory->GetFileSize("/dir/f", &bytes));
  EXPECT_EQ(bytes, 11u);
  EXPECT_FINE(memory->RenameFile("/dir/f", "/dir/g"));
  EXPECT_TRUE(memory->GetFileSize("/dir/f", &bytes).IsNotFound());
  EXPECT_FINE(leveldb::WriteStringToFile(memory.get(), "", "/director"));
  std::vector<std::string> names;
  EXPECT_FINE(memory->GetChildren("/dir", &names));
  EXPECT_EQ(names, std::vector<std::string>{"g"});
  std::string read;
  EXPECT_FINE(leveldb::ReadFileToString(memory.get(), "/dir/g", &read));
  EXPECT_EQ(read, "hello world");
  leveldb::SequentialFile* sequential_opened = nullptr;
  ASSERT_FINE(memory->NewSequentialFile("/dir/g", &sequential_opened));
  const std::unique_ptr<leveldb::SequentialFile> sequential(sequential_opened);
  leveldb::RandomAccessFile* random_opened = nullptr;
  ASSERT_FINE(memory->NewRandomAccessFile("/dir/g", &random_opened));
  const std::unique_ptr<leveldb::RandomAccessFile> random(random_opened);
  EXPECT_FINE(memory->RemoveFile("/dir/g"));
  EXPECT_TRUE(memory->RemoveFile("/dir/g").IsNotFound());
  char scratch[100];
  leveldb::Slice got;
  EXPECT_FINE(sequential->Skip(9));
  EXPECT_FINE(sequential->Read(100, &got, scratch));
  EXPECT_EQ(got.ToString(), "ld");
  EXPECT_FINE(sequential->Skip(1000));
  EXPECT_FINE(sequential->Read(1, &got, scratch));
  EXPECT_TRUE(got.empty());
  EXPECT_FINE(random->Read(6, 2, &got, scratch));
  EXPECT_EQ(got.ToString(), "wo");
  EXPECT_FINE(random->Read(100, 2, &got, scratch));
  EXPECT_TRUE(got.empty());
}

// A database of a MemEnv makes no file, lasts as long as the MemEnv, and is another one than that
// of the same name in another MemEnv.
TEST(MemEnvTest, DatabasesInMemory) {
  std::unique_ptr<leveldb::Env> memory[2];
  std::unique_ptr<leveldb::DB> db[2];
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::WriteOptions synced;
  synced.sync = true;
  for (int i = 0; i < 2; ++i) {
    memory[i].reset(leveldb::NewMemEnv(leveldb::Env::Default()));
    options.env = memory[i].get();
    leveldb::DB* opened = nullptr;
    ASSERT_FINE(leveldb::DB::Open(options, "/none/db", &opened));
    db[i].reset(opened);
    EXPECT_FINE(db[i]->Put(synced, "a", std::to_string(i)));
  }
  EXPECT_FALSE(leveldb::Env::Default()->FileExists("/none"));
  leveldb::DB* opened = nullptr;
  EXPECT_TRUE(leveldb::DB::Open(options, "/none/db", &opened).IsIOError());
  for (int i = 0; i < 2; ++i) {
    db[i].reset();
    options.env = memory[i].get();
    options.create_if_missing = false;
    ASSERT_FINE(leveldb::DB::Open(options, "/none/db", &opened));
    db[i].reset(opened);
    std::string value;
    EXPECT_FINE(db[i]->Get(leveldb::ReadOptions(), "a", &value));
    EXPECT_EQ(value, std::to_string(i));
    db[i].reset();
  }
  EXPECT_FINE(leveldb::DestroyDB("/none/db", options));
  EXPECT_TRUE(leveldb::DB::Open(options, "/none/db", &opened).IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm::compat
