// The verbs backup, restore and check-backup: which databases they reach, and what they tell.
#include "script/tool/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "dLSM/db.h"
#include "db/test/test_database_testing.h"
#include "util/status_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::tool {
namespace {

using testing::HasSubstr;

class BackupVerbsTest : public testing::Test {
 protected:
  BackupCommand On(const std::string& directory, const std::string& name) const {
    BackupCommand command;
    command.database.embedded_dir = directory_ / directory;
    command.database.embedded_memory_bytes = uint64_t{64} << 20;
    command.name = name;
    command.file = directory_ / "file";
    return command;
  }

  TemporaryDirectory directory_;
  std::ostringstream out_;
};

TEST_F(BackupVerbsTest, FromOneDirectoryIntoAnother) {
  BackupCommand from = On("one", "fruit");
  {
    Options options = from.database;
    options.create_if_missing = true;
    std::unique_ptr<DB> db = OpenOrDie(options, "fruit");
    ASSERT_OK(db->Put({}, "apple", "red"));
    // While this process has it open, nobody can follow it: a directory has one process.
    const Status busy = BackUp(from, &out_);
    EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
    EXPECT_THAT(busy.ToString(), HasSubstr("WriteBackup()"));
    ASSERT_OK(db->Close());
  }
  ASSERT_OK(BackUp(from, &out_));
  EXPECT_THAT(out_.str(), HasSubstr("backup: 1 entries"));
  ASSERT_OK(CheckBackupFile(from.file, &out_));
  EXPECT_THAT(out_.str(), HasSubstr("comparator dlsm.BytewiseComparator\n"));
  EXPECT_THAT(out_.str(), HasSubstr("shards 1\n"));
  BackupCommand to = On("two", "copy");
  ASSERT_OK(Restore(to, &out_));
  EXPECT_THAT(out_.str(), HasSubstr("restore: 1 entries"));
  const Status refused = Restore(to, &out_);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr("--overwrite"));
  to.overwrite = true;
  ASSERT_OK(Restore(to, &out_));
  std::unique_ptr<DB> db = OpenOrDie(to.database, "copy");
  EXPECT_EQ(GetOr(db.get(), "apple"), "red");
  ASSERT_OK(db->Close());
}

TEST_F(BackupVerbsTest, WhereThereIsNothingItSaysSo) {
  EXPECT_TRUE(BackUp(On("none", "fruit"), &out_).IsNotFound());
  BackupCommand nowhere;
  EXPECT_THAT(BackUp(nowhere, &out_).ToString(), HasSubstr("--data_dir"));
  EXPECT_THAT(Restore(nowhere, &out_).ToString(), HasSubstr("--data_dir"));
  EXPECT_TRUE(CheckBackupFile(directory_ / "none", &out_).IsNotFound());
  EXPECT_EQ(out_.str(), "");
}

// A database that is open is copied if its owner publishes.
TEST_F(BackupVerbsTest, OfADatabaseThatIsOpen) {
  Options options = TinyOptions();
  const std::unique_ptr<TestNode> node = NodeServing("tcp", &options);
  for (const uint64_t publish_interval_ms : {0, 1}) {
    options.publish_interval_ms = publish_interval_ms;
    std::unique_ptr<DB> db = OpenOrDie(options, "open");
    ASSERT_OK(db->Put({}, "apple", "red"));
    ASSERT_OK(db->Flush(FlushOptions()));
    BackupCommand command;
    command.database = options;
    command.name = "open";
    command.file = directory_ / "file";
    command.publication_timeout_ms = publish_interval_ms == 0 ? 100 : 10000;
    const Status status = BackUp(command, &out_);
    if (publish_interval_ms == 0) {
      EXPECT_TRUE(status.IsBusy()) << status.ToString();
      EXPECT_THAT(status.ToString(), HasSubstr("publish_interval_ms"));
    } else {
      ASSERT_OK(status);
      EXPECT_THAT(out_.str(), HasSubstr("of what its owner had published"));
      ASSERT_OK(db->Close());
      db.reset();
      command.name = "copy";
      ASSERT_OK(Restore(command, &out_));
      db = OpenOrDie(options, "copy");
      EXPECT_EQ(GetOr(db.get(), "apple"), "red");
    }
    ASSERT_OK(db->Close());
  }
}

}  // namespace
}  // namespace dlsm::tool
