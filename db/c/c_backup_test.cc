// The C interface: backups.
#include <gtest/gtest.h>

#include <string>

#include "dLSM/c.h"
#include "db/c/c_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

TEST_F(CTest, BackupsComeBack) {
  const TemporaryDirectory directory;
  const std::string path = directory / "backup";
  ASSERT_NO_FATAL_FAILURE(Open());
  Put("a", "1");
  Put("b", "2");
  dlsm_write_backup(db_, path.c_str(), error_.out());
  ASSERT_EQ(error_.text(), "");
  dlsm_check_backup(path.c_str(), error_.out());
  ASSERT_EQ(error_.text(), "");
  Put("b", "3");
  Put("c", "4");
  Error refused;
  dlsm_restore_backup(db_, path.c_str(), 0, refused.out());
  EXPECT_NE(refused.text().find("is not empty"), std::string::npos) << refused.text();
  EXPECT_EQ(Get("b"), "3");
  dlsm_restore_backup(db_, path.c_str(), 1, error_.out());
  ASSERT_EQ(error_.text(), "");
  EXPECT_EQ(Scan(), "a=1 b=2 ");
  dlsm_check_backup((path + ".none").c_str(), refused.out());
  EXPECT_NE(refused.text().find("there is no such file"), std::string::npos) << refused.text();
}

}  // namespace
}  // namespace dlsm
