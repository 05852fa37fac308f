// DB::OpenForReadOnly: what it shows, what it refuses, and that it leaves everything as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "dLSM/write_batch.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using Contents = std::map<std::string, std::string>;

constexpr char kReadOnlyName[] = "only read";

struct ReadOnlyShape {
  const char* fabric;
  int shards;
};
std::string ShapeName(const ReadOnlyShape& shape) {
  return shape.fabric + std::to_string(shape.shards);
}
void PrintTo(const ReadOnlyShape& shape, std::ostream* out) { *out << ShapeName(shape); }

class ReadOnlyTest : public testing::TestWithParam<ReadOnlyShape> {
 protected:
  ReadOnlyTest() : node_(GetParam().fabric) {}

  void SetUp() override {
    options_ = node_.With(TinyOptions(), GetParam().fabric);
    options_.shards = GetParam().shards;
    if (options_.shards == 2) options_.shard_boundaries = {"m"};
    options_.log = LogLevel::kMemory;
    options_.write_stall_timeout_ms = 500;
    options_.fault_injector = faults_;
  }
  void TearDown() override { EXPECT_OK(DestroyDB(kReadOnlyName, options_)); }

  // Leaves a database of which a part is in tables, and the rest in its log alone.
  void Make() {
    std::unique_ptr<DB> db = OpenOrDie(options_, kReadOnlyName);
    for (uint64_t i = 0; i < 300; ++i) {
      Put(db.get(), NumberedKey(i), NumberedValue(i, 100));
      Put(db.get(), "z" + NumberedKey(i), NumberedValue(i, 50));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->WaitForBackgroundWork());
    faults_->OnlyPurpose(Purpose::kFlush);
    faults_->SetProbability(FaultKind::kFail, 1);
    Put(db.get(), "in the log", "1");
    Put(db.get(), NumberedKey(7), "2");
    ASSERT_OK(db->Delete(WriteOptions(), NumberedKey(8)));
    contents_.erase(NumberedKey(8));
    ASSERT_OK(db->DeleteRange(WriteOptions(), NumberedKey(100), NumberedKey(200)));
    contents_.erase(contents_.lower_bound(NumberedKey(100)),
                    contents_.lower_bound(NumberedKey(200)));
    Put(db.get(), NumberedKey(150), "written after its range was deleted");
    ASSERT_OK(db->FlushLog(/*sync=*/true));
    EXPECT_FALSE(db->Close().ok()) << "no flush succeeds";
    faults_->Clear();
  }
  void Put(DB* db, const std::string& key, const std::string& value) {
    ASSERT_OK(db->Put(WriteOptions(), key, value));
    contents_[key] = value;
  }
  std::unique_ptr<DB> OpenToRead() {
    std::unique_ptr<DB> db;
    EXPECT_OK(DB::OpenForReadOnly(options_, kReadOnlyName, &db));
    return db;
  }
  static Contents ContentsOf(DB* db) {
    Contents contents;
    const std::unique_ptr<Iterator> all(db->NewIterator(ReadOptions()));
    for (all->SeekToFirst(); all->Valid(); all->Next()) {
      contents[all->key().ToString()] = all->value().ToString();
    }
    EXPECT_OK(all->status());
    return contents;
  }

  TestNode node_;
  const std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  Options options_;
  Contents contents_;
};

// Fails if what is in the log only is not shown, or if reading it once keeps the next handle from
// it; if anything is written to the memory node, or memory there is taken or given back.
TEST_P(ReadOnlyTest, ShowsTheLogAndLeavesIt) {
  ASSERT_NO_FATAL_FAILURE(Make());
  const uint64_t used = node_.used_bytes();
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    const std::unique_ptr<DB> db = OpenToRead();
    ASSERT_NE(db, nullptr);
    EXPECT_EQ(ContentsOf(db.get()), contents_);
    EXPECT_EQ(GetOr(db.get(), "in the log"), "1");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(8)), "(none)");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(120)), "(none)");
    EXPECT_OK(db->WaitForBackgroundWork());
    std::string wire;
    ASSERT_TRUE(db->GetProperty("dlsm.wire", &wire));
    for (const Purpose purpose : {Purpose::kFlush, Purpose::kCompaction, Purpose::kLog}) {
      const size_t at = wire.find(std::string(PurposeName(purpose)) + " ");
      if (at == std::string::npos) continue;
      const std::string line = wire.substr(at, wire.find('\n', at) - at);
      EXPECT_EQ(line.substr(line.rfind(' ') + 1), "0") << line;
    }
    EXPECT_EQ(node_.used_bytes(), used);
    EXPECT_OK(db->Close());
    EXPECT_EQ(node_.used_bytes(), used);
  }
  std::unique_ptr<DB> owner = OpenOrDie(options_, kReadOnlyName);
  EXPECT_EQ(ContentsOf(owner.get()), contents_);
  EXPECT_OK(owner->Close());
}

// Fails if a call that changes the database does so, or does not say how to.
TEST_P(ReadOnlyTest, RefusesChanges) {
  ASSERT_NO_FATAL_FAILURE(Make());
  const std::unique_ptr<DB> db = OpenToRead();
  ASSERT_NE(db, nullptr);
  WriteBatch batch;
  batch.Put("a", "1");
  WriteBatch empty;
  WriteOptions synced;
  synced.sync = true;
  const Status refused[] = {
      db->Put(WriteOptions(), "a", "1"),
      db->Put(WriteOptions(), "z", std::string(size_t{1} << 20, 'v')),
      db->Delete(WriteOptions(), NumberedKey(1)),
      db->DeleteRange(WriteOptions(), "a", "b"),
      db->Write(WriteOptions(), &batch),
      db->Write(synced, &empty),
      db->Flush(FlushOptions()),
      db->FlushLog(/*sync=*/true),
      db->WaitDurable(1),
      db->CompactRange(nullptr, nullptr),
      db->SetOptions({{"merge_scheduler", "fair"}}),
  };
  for (const Status& status : refused) {
    EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("DB::Open()"));
  }
  EXPECT_EQ(ContentsOf(db.get()), contents_);
  EXPECT_OK(db->Close());
}

// Fails if two handles have the database, or if the error does not say how to
// read beside an owner.
TEST_P(ReadOnlyTest, IsTheOnlyHandle) {
  ASSERT_NO_FATAL_FAILURE(Make());
  std::unique_ptr<DB> db = OpenToRead();
  ASSERT_NE(db, nullptr);
  std::unique_ptr<DB> second;
  EXPECT_TRUE(DB::Open(options_, kReadOnlyName, &second).IsBusy());
  EXPECT_TRUE(DB::OpenForReadOnly(options_, kReadOnlyName, &second).IsBusy());
  EXPECT_OK(db->Close());
  db.reset();
  std::unique_ptr<DB> owner = OpenOrDie(options_, kReadOnlyName);
  const Status busy = DB::OpenForReadOnly(options_, kReadOnlyName, &second);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_THAT(busy.ToString(), HasSubstr("OpenFollower"));
  EXPECT_OK(owner->Close());
}

TEST_P(ReadOnlyTest, WhatIsNotThere) {
  std::unique_ptr<DB> db;
  EXPECT_TRUE(DB::OpenForReadOnly(options_, kReadOnlyName, &db).IsInvalidArgument());
  EXPECT_EQ(db, nullptr);
  Options takes_over = options_;
  takes_over.take_over = true;
  EXPECT_TRUE(DB::OpenForReadOnly(takes_over, kReadOnlyName, &db).IsInvalidArgument());
  EXPECT_TRUE(
      DB::OpenForReadOnly(options_, kReadOnlyName, static_cast<DB**>(nullptr)).IsInvalidArgument());
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReadOnlyTest,
                         testing::Values(ReadOnlyShape{"shm", 1}, ReadOnlyShape{"tcp", 1},
                                         ReadOnlyShape{"tcp", 2}),
                         [](const auto& shape) { return ShapeName(shape.param); });

}  // namespace
}  // namespace dlsm
