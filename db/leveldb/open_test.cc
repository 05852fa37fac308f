// Opening, destroying and repairing in LevelDB's words.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/leveldb/leveldb_testing.h"
#include "db/leveldb/place.h"
#include "db/test/test_database_testing.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"
#include "port/thread_sanitizer.h"
#include "util/child_testing.h"

namespace dlsm::compat {
namespace {

using OpenTest = LevelDbTest;

bool Exists(const std::string& path) { return std::filesystem::exists(path); }

void WriteFile(const std::string& path) {
  EXPECT_FINE(leveldb::WriteStringToFile(leveldb::Env::Default(), "x", path));
}

// Fails if a database is not kept in its directory.
TEST_F(OpenTest, KeepsWhatWasWritten) {
  ASSERT_FINE(Reopen());
  Put("apple", "red");
  leveldb::WriteOptions synced;
  synced.sync = true;
  EXPECT_FINE(db_->Put(synced, "banana", "yellow"));
  EXPECT_FINE(db_->Delete(leveldb::WriteOptions(), "apple"));
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Scan(), "banana=yellow ");
  EXPECT_TRUE(Exists(path() + kRegion));
}

TEST_F(OpenTest, MissingAndExistingInWordsOfLevelDb) {
  options_.create_if_missing = false;
  const std::string missing =
      "Invalid argument: " + path() + ": does not exist (create_if_missing is false)";
  EXPECT_EQ(ErrorOfOpen(path()), missing);
  EXPECT_EQ(ErrorOfOpen(path()), missing);  // The directory is there now.
  EXPECT_FALSE(Exists(path() + kAccounts));
  options_.create_if_missing = true;
  ASSERT_FINE(Reopen());
  db_.reset();
  options_.error_if_exists = true;
  EXPECT_EQ(ErrorOfOpen(path()),
            "Invalid argument: " + path() + ": exists (error_if_exists is true)");
}

// A directory whose making was cut short holds no database.
TEST_F(OpenTest, DirectoryWithoutItsDatabaseIsMissing) {
  ASSERT_FINE(leveldb::Env::Default()->CreateDir(path()));
  WriteFile(path() + "/notes");
  ASSERT_FINE(Reopen());  // LevelDB takes a directory that has other files.
  db_.reset();
  EXPECT_TRUE(Exists(path() + "/notes"));
  ASSERT_FINE(leveldb::DestroyDB(path(), options_));
  EXPECT_TRUE(Exists(path() + "/notes"));
  EXPECT_FALSE(Exists(path() + kAccounts));
  options_.create_if_missing = false;
  EXPECT_NE(ErrorOfOpen(path()).find("does not exist"), std::string::npos);
}

TEST_F(OpenTest, MissingParentIsAnError) {
  EXPECT_EQ(ErrorOfOpen(directory_ / "no/db"),
            "NotFound: " + (directory_ / "no/db/LOCK") + ": No such file or directory");
}

TEST_F(OpenTest, LockedByThisProcessUnderAnyName) {
  ASSERT_FINE(Reopen());
  const std::string other =
      directory_ / "../" + std::filesystem::path(directory_.path()).filename().string() + "/db";
  EXPECT_EQ(ErrorOfOpen(other), "IO error: lock " + other + "/LOCK: already held by process");
  EXPECT_EQ(leveldb::DestroyDB(path(), options_).ToString(),
            "IO error: lock " + path() + "/LOCK: already held by process");
  Put("a", "1");
  EXPECT_EQ(Get("a"), "1");
  db_.reset();
  ASSERT_FINE(Open(other));
  EXPECT_EQ(Get("a"), "1");
}

class OpenInChildTest : public LevelDbTest {
 protected:
  void SetUp() override {
    if (port::kUnderThreadSanitizer) {
      GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
    }
  }
};

// A handle of the parent's is of no use to a child, and to delete it there hurts nobody.
TEST_F(OpenInChildTest, LockedByTheParentProcess) {
  ASSERT_FINE(Reopen());
  Put("a", "1");
  InChild([&] {
    EXPECT_EQ(ErrorOfOpen(path()),
              "IO error: lock " + path() + "/LOCK: Resource temporarily unavailable");
    std::string value;
    EXPECT_TRUE(db_->Get(leveldb::ReadOptions(), "a", &value).IsInvalidArgument());
    db_.reset();
    EXPECT_NE(ErrorOfOpen(path()), "OK");
  });
  EXPECT_EQ(Get("a"), "1");
  db_.reset();
  InChild([&] {
    EXPECT_FINE(Reopen());
    EXPECT_EQ(Get("a"), "1");
    db_.reset();
  });
}

// Writes outlive their process, although it did not close the database.
TEST_F(OpenInChildTest, ProcessThatDiesLosesNothing) {
  InChild([&] {
    ASSERT_FINE(Reopen());
    for (int i = 0; i < 100; ++i) Put("key" + std::to_string(i), std::to_string(i));
    ::_exit(0);
  });
  ASSERT_FINE(Reopen());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Get("key" + std::to_string(i)), std::to_string(i));
}

// Changes the first byte of `text` where the file has it; sparse parts are passed over.
bool DamageWhereItIs(const std::string& file, const std::string& text) {
  const int opened = ::open(file.c_str(), O_RDWR);
  bool found = false;
  off_t at = 0;
  while (!found && (at = ::lseek(opened, at, SEEK_DATA)) >= 0) {
    const off_t end = ::lseek(opened, at, SEEK_HOLE);
    std::string bytes(static_cast<size_t>(end - at), '\0');
    if (::pread(opened, bytes.data(), bytes.size(), at) != end - at) break;
    const size_t place = bytes.find(text);
    found =
        place != std::string::npos && ::pwrite(opened, "?", 1, at + static_cast<off_t>(place)) == 1;
    at = end;
  }
  ::close(opened);
  return found;
}

TEST_F(OpenInChildTest, RepairGivesUpWhatIsBehindDamage) {
  InChild([&] {
    ASSERT_FINE(Reopen());
    leveldb::WriteOptions synced;
    synced.sync = true;
    EXPECT_FINE(db_->Put(synced, "first", "value that stays whole"));
    EXPECT_FINE(db_->Put(synced, "second", "value that is damaged"));
    EXPECT_FINE(db_->Put(synced, "third", "value that is behind"));
    ::_exit(0);
  });
  ASSERT_TRUE(DamageWhereItIs(path() + kRegion, "value that is damaged"));
  EXPECT_EQ(ErrorOfOpen(path()).find("Corruption: "), 0u);
  ASSERT_FINE(leveldb::RepairDB(path(), options_));
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Scan(), "first=value that stays whole ");
}

TEST_F(OpenTest, RelativePath) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  EXPECT_FINE(Open("db"));
  Put("a", "1");
  EXPECT_FINE(Open("./db"));
  EXPECT_EQ(Get("a"), "1");
  db_.reset();
  EXPECT_FINE(leveldb::DestroyDB("db", options_));
  std::filesystem::current_path(before);
  EXPECT_FALSE(Exists(path()));
}

// Files of LevelDB's own are neither taken for an empty database nor destroyed.
TEST_F(OpenTest, RefusesADatabaseOfLevelDb) {
  for (const char* const name : {"CURRENT", "MANIFEST-000002"}) {
    const std::string other = directory_ / name;
    ASSERT_FINE(leveldb::Env::Default()->CreateDir(other));
    WriteFile(other + "/" + name);
    const std::string error = ErrorOfOpen(other);
    EXPECT_EQ(error.find("Invalid argument: " + other + ": holds a database in LevelDB's own"), 0u)
        << error;
    EXPECT_TRUE(leveldb::DestroyDB(other, options_).IsInvalidArgument());
    EXPECT_TRUE(leveldb::RepairDB(other, options_).IsInvalidArgument());
    EXPECT_TRUE(Exists(other + "/" + name));
  }
}

TEST_F(OpenTest, DestroysTheDirectory) {
  EXPECT_FINE(leveldb::DestroyDB(path(), options_));  // There is none.
  ASSERT_FINE(Reopen());
  Put("a", "1");
  db_.reset();
  ASSERT_FINE(Reopen());  // Now there is a LOG.old, too.
  db_.reset();
  EXPECT_FINE(leveldb::DestroyDB(path(), options_));
  EXPECT_FALSE(Exists(path()));
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Get("a"), "NotFound: ");
}

TEST_F(OpenTest, Repairs) {
  EXPECT_TRUE(leveldb::RepairDB(path(), options_).IsNotFound());
  ASSERT_FINE(leveldb::Env::Default()->CreateDir(path()));
  EXPECT_TRUE(leveldb::RepairDB(path(), options_).IsCorruption());
  ASSERT_FINE(Reopen());
  Put("a", "1");
  EXPECT_TRUE(leveldb::RepairDB(path(), options_).IsIOError());  // It is open.
  db_.reset();
  EXPECT_FINE(leveldb::RepairDB(path(), options_));
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Get("a"), "1");
}

// Many databases, one after the other and at once.
TEST_F(OpenTest, ManyDatabases) {
  std::vector<std::unique_ptr<leveldb::DB>> open;
  for (int i = 0; i < 10; ++i) {
    ASSERT_FINE(Open(directory_ / std::to_string(i)));
    Put("number", std::to_string(i));
    open.push_back(std::move(db_));
  }
  for (int i = 0; i < 10; ++i) {
    db_ = std::move(open[static_cast<size_t>(i)]);
    EXPECT_EQ(Get("number"), std::to_string(i));
  }
}

class EnvironmentTest : public LevelDbTest {
 protected:
  ~EnvironmentTest() override {
    for (const char* const name : {"DLSM_MEMORY_NODES", "DLSM_CONFIG", "DLSM_FABRIC",
                                   "DLSM_SECRET_FILE", "DLSM_DIRECTORY_BYTES"}) {
      ::unsetenv(name);
    }
  }
};

// The environment puts a database on memory nodes, with its path for a name, and no file here.
TEST_F(EnvironmentTest, NamesMemoryNodes) {
  const TestNode node(TestNode::Serving("tcp"));
  ::setenv("DLSM_MEMORY_NODES", node.address().c_str(), 1);
  ::setenv("DLSM_FABRIC", "tcp", 1);
  ASSERT_FINE(Reopen());
  Put("a", "1");
  EXPECT_EQ(ErrorOfOpen(path()).find("IO error: lock " + path()), 0u);
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Get("a"), "1");
  EXPECT_FALSE(Exists(path()));
  Options own;
  own.memory_nodes = node.address();
  own.fabric = "tcp";
  db_.reset();
  std::unique_ptr<dlsm::DB> same;
  ASSERT_OK(dlsm::DB::Open(own, path(), &same));
  ASSERT_OK(same->Close());
  EXPECT_FINE(leveldb::DestroyDB(path(), options_));
  options_.create_if_missing = false;
  EXPECT_NE(ErrorOfOpen(path()).find("does not exist (create_if_missing is false)"),
            std::string::npos);
}

TEST_F(EnvironmentTest, ContradictionsAreErrors) {
  ::setenv("DLSM_FABRIC", "tcp", 1);
  EXPECT_NE(ErrorOfOpen(path()).find("neither DLSM_MEMORY_NODES nor DLSM_CONFIG"),
            std::string::npos);
  ::setenv("DLSM_MEMORY_NODES", "127.0.0.1:1", 1);
  ::setenv("DLSM_SECRET_FILE", "/none/secret", 1);
  EXPECT_NE(ErrorOfOpen(path()).find("/none/secret"), std::string::npos);
  ::setenv("DLSM_CONFIG", "/none", 1);
  EXPECT_NE(ErrorOfOpen(path()).find("both set"), std::string::npos);
}

TEST_F(EnvironmentTest, SizesTheDirectory) {
  ::setenv("DLSM_DIRECTORY_BYTES", "12 GB", 1);
  EXPECT_NE(ErrorOfOpen(path()).find("DLSM_DIRECTORY_BYTES is '12 GB'"), std::string::npos);
  ::setenv("DLSM_DIRECTORY_BYTES", "2147483648", 1);
  ASSERT_FINE(Reopen());
  EXPECT_EQ(std::filesystem::file_size(path() + kRegion), uint64_t{2} << 30);
  ::unsetenv("DLSM_DIRECTORY_BYTES");
  ASSERT_FINE(Reopen());  // It keeps its size.
  EXPECT_EQ(std::filesystem::file_size(path() + kRegion), uint64_t{2} << 30);
}

}  // namespace
}  // namespace dlsm::compat
