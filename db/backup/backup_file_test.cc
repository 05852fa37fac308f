// The file of a backup gets its name when it is complete, or never.
#include "db/backup/backup_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "dLSM/backup.h"
#include "dLSM/db.h"
#include "db/backup/backup_testing.h"
#include "db/test/test_database_testing.h"
#include "util/child_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class BackupFileTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "backup";
  const std::string temporary_ = path_ + ".tmp";
};

TEST_F(BackupFileTest, GetsItsNameWhenItIsComplete) {
  WriteBytes(path_, "the one before");
  std::unique_ptr<BackupFile> file;
  ASSERT_OK(BackupFile::Create(path_, &file));
  ASSERT_OK(file->Append(std::string(3 << 20, 'x')));
  EXPECT_EQ(BytesOf(path_), "the one before");
  std::unique_ptr<BackupFile> second;
  EXPECT_TRUE(BackupFile::Create(path_, &second).IsBusy());
  ASSERT_OK(file->Commit());
  EXPECT_EQ(BytesOf(path_).size(), size_t{3} << 20);
  struct stat present {};
  ASSERT_EQ(stat(path_.c_str(), &present), 0);
  EXPECT_EQ(present.st_mode & 0777, 0600U);
  file.reset();
  EXPECT_FALSE(std::filesystem::exists(temporary_));
  // One that is given up leaves the file, and nothing besides.
  ASSERT_OK(BackupFile::Create(path_, &file));
  ASSERT_OK(file->Append("y"));
  file.reset();
  EXPECT_EQ(BytesOf(path_).size(), size_t{3} << 20);
  EXPECT_FALSE(std::filesystem::exists(temporary_));
}

// A process that is killed leaves its temporary file, which the next one takes.
TEST_F(BackupFileTest, AKilledProcessLeavesTheOldFile) {
  WriteBytes(path_, "the one before");
  const int status = StatusOfChild([this] {
    std::unique_ptr<BackupFile> file;
    EXPECT_OK(BackupFile::Create(path_, &file));
    EXPECT_OK(file->Append(std::string(3 << 20, 'x')));
    raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(BytesOf(path_), "the one before");
  EXPECT_GT(std::filesystem::file_size(temporary_), 0U);
  std::unique_ptr<BackupFile> file;
  ASSERT_OK(BackupFile::Create(path_, &file));
  ASSERT_OK(file->Append("short"));
  ASSERT_OK(file->Commit());
  EXPECT_EQ(BytesOf(path_), "short");
  EXPECT_FALSE(std::filesystem::exists(temporary_));
}

// Whole backups one after the other, until the process is killed somewhere: there is always a
// complete one.
TEST_F(BackupFileTest, AProcessThatIsKilledAtAnyMomentLeavesACompleteBackup) {
  for (int round = 0; round < 4; ++round) {
    std::filesystem::remove(path_);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      const std::string name = "killed";
      std::unique_ptr<DB> db = OpenOrDie(TinyOptions(), name);
      for (uint64_t i = 0; i < 2000; ++i) {
        if (!db->Put({}, NumberedKey(i), std::string(500, 'v')).ok()) _exit(1);
      }
      while (WriteBackup(db.get(), {}, path_, nullptr).ok()) {
      }
      _exit(1);
    }
    // Its first copy is complete: the next ones replace it.
    while (!std::filesystem::exists(path_)) usleep(1000);
    usleep(static_cast<useconds_t>(3000 * round));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    BackupInfo info;
    ASSERT_OK(CheckBackup(path_, &info));
    EXPECT_EQ(info.entries, 2000U);
  }
}

// A limit of the size of files stands for a disk that is full.
TEST_F(BackupFileTest, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  InChild([this] {
    WriteBytes(path_, "the one before");
    std::unique_ptr<DB> db = OpenOrDie(TinyOptions(), "full");
    for (uint64_t i = 0; i < 100; ++i) {
      EXPECT_OK(db->Put({}, NumberedKey(i), std::string(50000, 'v')));
    }
    BackupOptions options;
    options.compression = kNoCompression;
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    // The limit is reached in the first write, between two, and at the last one.
    for (const rlim_t bytes : {100, 1 << 20, 4'999'000, 5'002'000}) {
      limit.rlim_cur = bytes;
      EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
      const Status status = WriteBackup(db.get(), options, path_, nullptr);
      EXPECT_TRUE(status.IsIOError()) << bytes << ": " << status.ToString();
      EXPECT_THAT(status.ToString(), HasSubstr("make room there"));
      EXPECT_EQ(BytesOf(path_), "the one before");
      EXPECT_FALSE(std::filesystem::exists(temporary_));
    }
    limit.rlim_cur = before;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_OK(WriteBackup(db.get(), options, path_, nullptr));
    EXPECT_OK(CheckBackup(path_, nullptr));
    CloseAndDestroy(&db, TinyOptions(), "full");
  });
}

}  // namespace
}  // namespace dlsm
