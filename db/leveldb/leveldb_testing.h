// What tests of LevelDB's interface share: a database in a temporary directory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "leveldb/db.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/status.h"
#include "util/temporary_directory_testing.h"

#define EXPECT_FINE(expression)                              \
  do {                                                       \
    const ::leveldb::Status fine_status = (expression);      \
    EXPECT_TRUE(fine_status.ok()) << fine_status.ToString(); \
  } while (false)
#define ASSERT_FINE(expression)                              \
  do {                                                       \
    const ::leveldb::Status fine_status = (expression);      \
    ASSERT_TRUE(fine_status.ok()) << fine_status.ToString(); \
  } while (false)

namespace dlsm::compat {

class LevelDbTest : public testing::Test {
 protected:
  LevelDbTest() { options_.create_if_missing = true; }

  // Opens the database anew; null if that fails.
  leveldb::Status Reopen() { return Open(path()); }
  leveldb::Status Open(const std::string& path) {
    db_.reset();
    leveldb::DB* opened = nullptr;
    leveldb::Status status = leveldb::DB::Open(options_, path, &opened);
    db_.reset(opened);
    EXPECT_EQ(status.ok(), opened != nullptr);
    return status;
  }
  // What an open says that should fail.
  std::string ErrorOfOpen(const std::string& path) {
    leveldb::DB* opened = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options_, path, &opened);
    EXPECT_EQ(opened, nullptr);
    return status.ToString();
  }

  std::string path() const { return directory_ / "db"; }

  // The value, or the status as text.
  std::string Get(const leveldb::Slice& key, const leveldb::Snapshot* snapshot = nullptr) {
    leveldb::ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    const leveldb::Status status = db_->Get(options, key, &value);
    return status.ok() ? value : status.ToString();
  }
  void Put(const leveldb::Slice& key, const leveldb::Slice& value) {
    EXPECT_FINE(db_->Put(leveldb::WriteOptions(), key, value));
  }
  // All entries, as "a=1 b=2 ".
  std::string Scan() {
    const std::unique_ptr<leveldb::Iterator> iterator(db_->NewIterator(leveldb::ReadOptions()));
    std::string scanned;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      scanned += iterator->key().ToString() + "=" + iterator->value().ToString() + " ";
    }
    EXPECT_FINE(iterator->status());
    return scanned;
  }
  uint64_t SizeOf(const std::string& begin, const std::string& end) {
    const leveldb::Range range(begin, end);
    uint64_t bytes = 0;
    db_->GetApproximateSizes(&range, 1, &bytes);
    return bytes;
  }

  TemporaryDirectory directory_;
  leveldb::Options options_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace dlsm::compat
