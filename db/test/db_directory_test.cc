// Databases in a directory, without any Server: what an application finds when it comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "dLSM/db.h"
#include "dLSM/write_batch.h"
#include "util/child_testing.h"
#include "util/status_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class DbDirectoryTest : public testing::Test {
 protected:
  Options InDirectory() const {
    Options options;
    options.create_if_missing = true;
    options.embedded_dir = temporary_ / "data";
    options.embedded_memory_bytes = uint64_t{256} << 20;
    options.write_buffer_size = 1 << 20;
    return options;
  }
  std::unique_ptr<DB> OpenOk(const Options& options, const std::string& name = "d") {
    std::unique_ptr<DB> db;
    EXPECT_OK(DB::Open(options, name, &db));
    return db;
  }
  static std::string ValueOf(DB& db, const std::string& key) {
    std::string value;
    const Status status = db.Get({}, key, &value);
    return status.ok() ? value : status.ToString();
  }

  TemporaryDirectory temporary_;
};

// Fails if a database that was closed is not what it was, or two of one directory are one.
TEST_F(DbDirectoryTest, ComesBack) {
  {
    const auto db = OpenOk(InDirectory());
    const auto other = OpenOk(InDirectory(), "other");
    ASSERT_OK(db->Put({}, "a", "1"));
    ASSERT_OK(other->Put({}, "a", "2"));
    ASSERT_OK(db->Close());
    ASSERT_OK(other->Close());
  }
  Options options = InDirectory();
  options.create_if_missing = false;
  EXPECT_EQ(ValueOf(*OpenOk(options), "a"), "1");
  EXPECT_EQ(ValueOf(*OpenOk(options, "other"), "a"), "2");
  ASSERT_OK(DestroyDB("other", options));
  std::unique_ptr<DB> db;
  EXPECT_TRUE(DB::Open(options, "other", &db).IsInvalidArgument());
}

// Fails if a process that is killed takes along what it was told to be written, synced or not, or a
// part of a batch.
TEST_F(DbDirectoryTest, AKilledProcessLosesNothing) {
  constexpr int kWrites = 5000;  // Some are in tables by then, some are not.
  for (const bool synced : {false, true}) {
    const std::string name = synced ? "synced" : "not synced";
    const int status = StatusOfChild([&] {
      const auto db = OpenOk(InDirectory(), name);
      for (int i = 0; i < kWrites; ++i) {
        ASSERT_OK(db->Put({}, std::to_string(i), std::string(400, 'v')));
      }
      WriteBatch batch;
      batch.Put("batch a", "1");
      batch.Put("batch b", "1");
      WriteOptions last;
      last.sync = synced;
      ASSERT_OK(db->Write(last, &batch));
      kill(getpid(), SIGKILL);
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const auto db = OpenOk(InDirectory(), name);
    for (int i = 0; i < kWrites; ++i) {
      ASSERT_EQ(ValueOf(*db, std::to_string(i)), std::string(400, 'v')) << i;
    }
    EXPECT_EQ(ValueOf(*db, "batch a"), "1");
    EXPECT_EQ(ValueOf(*db, "batch b"), "1");
  }
}

// Fails if two processes have one directory open, or the second one is not told which the first is;
// or the directory stays locked when that is killed.
TEST_F(DbDirectoryTest, OneProcessAtATime) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto db = OpenOk(InDirectory());
    EXPECT_EQ(write(ready[1], "x", 1), 1);
    alarm(60);
    while (true) pause();
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1) << "the child has failed";
  std::unique_ptr<DB> second;
  const Status busy = DB::Open(InDirectory(), "d", &second);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_THAT(busy.ToString(), HasSubstr(std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  OpenOk(InDirectory());
  close(ready[0]);
}

// Fails if one of two contradicting places is silently not used.
TEST_F(DbDirectoryTest, NotTogetherWithMemoryNodes) {
  Options options = InDirectory();
  options.memory_nodes = "127.0.0.1:1";
  std::unique_ptr<DB> db;
  const Status refused = DB::Open(options, "d", &db);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr("embedded_dir"));
}

// Fails if a log is made where nothing would outlive the process, or its absence is not told.
TEST_F(DbDirectoryTest, WithoutADirectoryThereIsNoLog) {
  Options options = InDirectory();
  options.embedded_dir.clear();
  for (const LogLevel level : {LogLevel::kMemory, LogLevel::kDisk}) {
    options.log = level;
    std::unique_ptr<DB> db;
    const Status refused = DB::Open(options, "d", &db);
    EXPECT_TRUE(refused.IsInvalidArgument());
    EXPECT_THAT(refused.ToString(), HasSubstr("embedded_dir"));
  }
}

}  // namespace
}  // namespace dlsm
