// Reads and writes through LevelDB's interface.
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/leveldb/leveldb_testing.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"
#include "util/random.h"

namespace dlsm::compat {
namespace {

using DatabaseTest = LevelDbTest;

TEST_F(DatabaseTest, MissingKeyLeavesTheValue) {
  ASSERT_FINE(Reopen());
  std::string value = "before";
  const leveldb::Status status = db_->Get(leveldb::ReadOptions(), "none", &value);
  EXPECT_EQ(status.ToString(), "NotFound: ");
  EXPECT_EQ(value, "before");
}

TEST_F(DatabaseTest, BatchIsAppliedInOrder) {
  ASSERT_FINE(Reopen());
  leveldb::WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "2");
  batch.Delete("a");
  batch.Put("", "empty");
  batch.Put("zero", std::string("\0x", 2));
  EXPECT_FINE(db_->Write(leveldb::WriteOptions(), &batch));
  EXPECT_EQ(Scan(), "=empty b=2 zero=" + std::string("\0x ", 3));
  EXPECT_FINE(db_->Write(leveldb::WriteOptions(), nullptr));
}

// A batch may be larger than all memtables. The log, which may have it, is small all the same.
TEST_F(DatabaseTest, LargeBatch) {
  ASSERT_FINE(Reopen());
  leveldb::WriteBatch batch;
  for (int i = 0; i < 40; ++i) batch.Put(std::to_string(i), std::string(1 << 20, 'x'));
  EXPECT_FINE(db_->Write(leveldb::WriteOptions(), &batch));
  EXPECT_EQ(Get("39").size(), size_t{1} << 20);
  std::string log;
  ASSERT_TRUE(db_->GetProperty("dlsm.log", &log));
  EXPECT_NE(log.find("segment-bytes 2097152"), std::string::npos) << log;
}

TEST_F(DatabaseTest, TooLargeIsAnError) {
  ASSERT_FINE(Reopen());
  const std::string key((1 << 20) + 1, 'k');
  EXPECT_TRUE(db_->Put(leveldb::WriteOptions(), key, "v").IsInvalidArgument());
  Put(key.substr(1), "v");
}

// A class of the program's that has Write() alone.
class WritesOnly final : public leveldb::DB {
 public:
  leveldb::Status Put(const leveldb::WriteOptions& options, const leveldb::Slice& key,
                      const leveldb::Slice& value) override {
    return DB::Put(options, key, value);
  }
  leveldb::Status Delete(const leveldb::WriteOptions& options, const leveldb::Slice& key) override {
    return DB::Delete(options, key);
  }
  leveldb::Status Write(const leveldb::WriteOptions&, leveldb::WriteBatch* updates) override {
    written.Append(*updates);
    return leveldb::Status::OK();
  }
  leveldb::Status Get(const leveldb::ReadOptions&, const leveldb::Slice&, std::string*) override {
    return leveldb::Status::NotSupported("reads");
  }
  leveldb::Iterator* NewIterator(const leveldb::ReadOptions&) override {
    return leveldb::NewErrorIterator(leveldb::Status::NotSupported("reads"));
  }
  const leveldb::Snapshot* GetSnapshot() override { return nullptr; }
  void ReleaseSnapshot(const leveldb::Snapshot*) override {}
  bool GetProperty(const leveldb::Slice&, std::string*) override { return false; }
  void GetApproximateSizes(const leveldb::Range*, int, uint64_t*) override {}
  void CompactRange(const leveldb::Slice*, const leveldb::Slice*) override {}

  leveldb::WriteBatch written;
};

TEST_F(DatabaseTest, BaseClassWritesBatches) {
  WritesOnly only;
  EXPECT_FINE(only.Put(leveldb::WriteOptions(), "a", "1"));
  EXPECT_FINE(only.Delete(leveldb::WriteOptions(), "b"));
  ASSERT_FINE(Reopen());
  Put("b", "2");
  EXPECT_FINE(db_->Write(leveldb::WriteOptions(), &only.written));
  EXPECT_EQ(Scan(), "a=1 ");
}

// Any walk of an iterator is that of a map, over memtables and tables of either format.
TEST_F(DatabaseTest, IteratesLikeAMap) {
  for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
    options_.compression = compression;
    ASSERT_FINE(Reopen());
    Random random(7);
    std::map<std::string, std::string> model;
    for (int i = 0; i < 600; ++i) {
      const std::string key = "k" + std::to_string(random.Uniform(300));
      if (random.Uniform(4) == 0) {
        EXPECT_FINE(db_->Delete(leveldb::WriteOptions(), key));
        model.erase(key);
      } else {
        Put(key, model[key] = std::to_string(i));
      }
      if (i == 200) db_->CompactRange(nullptr, nullptr);
    }
    const std::unique_ptr<leveldb::Iterator> iterator(db_->NewIterator(leveldb::ReadOptions()));
    EXPECT_FALSE(iterator->Valid());
    auto at = model.end();
    for (int step = 0; step < 3000; ++step) {
      switch (random.Uniform(at == model.end() ? 3 : 12)) {
        case 0:
          iterator->SeekToFirst();
          at = model.begin();
          break;
        case 1:
          iterator->SeekToLast();
          at = std::prev(model.end());
          break;
        case 2: {
          const std::string key = "k" + std::to_string(random.Uniform(400));
          iterator->Seek(key);
          at = model.lower_bound(key);
          break;
        }
        case 3:
        case 4:
        case 5:
        case 6:
        case 7:
          iterator->Next();
          ++at;
          break;
        default:
          iterator->Prev();
          at = at == model.begin() ? model.end() : std::prev(at);
          break;
      }
      ASSERT_EQ(iterator->Valid(), at != model.end());
      if (at == model.end()) continue;
      ASSERT_EQ(iterator->key().ToString(), at->first);
      ASSERT_EQ(iterator->value().ToString(), at->second);
    }
    EXPECT_FINE(iterator->status());
    iterator->Seek("z");
    EXPECT_FALSE(iterator->Valid());
    EXPECT_FINE(iterator->status());
  }
}

TEST_F(DatabaseTest, IteratorSeesOneMomentAndCleansUp) {
  ASSERT_FINE(Reopen());
  Put("a", "1");
  std::vector<int> cleaned;
  const auto clean = [](void* list, void* number) {
    static_cast<std::vector<int>*>(list)->push_back(*static_cast<int*>(number));
  };
  int numbers[] = {1, 2, 3};
  {
    const std::unique_ptr<leveldb::Iterator> iterator(db_->NewIterator(leveldb::ReadOptions()));
    Put("a", "2");
    Put("b", "3");
    for (int& number : numbers) iterator->RegisterCleanup(clean, &cleaned, &number);
    iterator->SeekToFirst();
    EXPECT_EQ(iterator->value().ToString(), "1");
    iterator->Next();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(cleaned.empty());
  }
  EXPECT_EQ(cleaned.size(), 3u);
  EXPECT_EQ(cleaned[0], 1);
}

TEST_F(DatabaseTest, Snapshots) {
  ASSERT_FINE(Reopen());
  Put("a", "1");
  const leveldb::Snapshot* const first = db_->GetSnapshot();
  Put("a", "2");
  const leveldb::Snapshot* const second = db_->GetSnapshot();
  Put("a", "3");
  db_->CompactRange(nullptr, nullptr);
  EXPECT_EQ(Get("a", first), "1");
  EXPECT_EQ(Get("a", second), "2");
  db_->ReleaseSnapshot(first);
  EXPECT_EQ(Get("a", second), "2");
  EXPECT_EQ(Get("a"), "3");
  // `second` is not released: the database closes all the same.
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Get("a"), "3");
}

TEST_F(DatabaseTest, Properties) {
  ASSERT_FINE(Reopen());
  for (int i = 0; i < 100; ++i) Put(std::to_string(i), std::string(100, 'x'));
  db_->CompactRange(nullptr, nullptr);
  std::string value;
  int tables = 0;
  for (int level = 0; level < 7; ++level) {
    ASSERT_TRUE(db_->GetProperty("leveldb.num-files-at-level" + std::to_string(level), &value));
    tables += std::stoi(value);
  }
  EXPECT_EQ(tables, 1);
  EXPECT_FALSE(db_->GetProperty("leveldb.num-files-at-level7", &value));
  EXPECT_FALSE(db_->GetProperty("leveldb.num-files-at-levelx", &value));
  EXPECT_TRUE(db_->GetProperty("leveldb.stats", &value));
  EXPECT_FALSE(value.empty());
  EXPECT_TRUE(db_->GetProperty("leveldb.sstables", &value));
  EXPECT_FALSE(value.empty());
  ASSERT_TRUE(db_->GetProperty("leveldb.approximate-memory-usage", &value));
  EXPECT_GT(std::stoull(value), 0u);
  EXPECT_TRUE(db_->GetProperty("dlsm.entries", &value));
  EXPECT_EQ(value, "100");
  EXPECT_FALSE(db_->GetProperty("leveldb.nothing", &value));
  EXPECT_EQ(value, "");
}

TEST_F(DatabaseTest, ApproximateSizes) {
  options_.compression = leveldb::kNoCompression;
  ASSERT_FINE(Reopen());
  for (int i = 10; i < 30; ++i) Put("key" + std::to_string(i), std::string(10000, 'v'));
  db_->CompactRange(nullptr, nullptr);
  EXPECT_NEAR(static_cast<double>(SizeOf("", "z")), 20 * 10000, 20000);
  EXPECT_NEAR(static_cast<double>(SizeOf("key20", "key20x")), 10000, 1000);
  EXPECT_EQ(SizeOf("x", "z"), 0u);
  EXPECT_EQ(SizeOf("z", ""), 0u);
}

// Fails if entries count only after their flush.
TEST_F(DatabaseTest, ApproximateSizesOfMemtables) {
  ASSERT_FINE(Reopen());
  for (int i = 10; i < 30; ++i) Put("key" + std::to_string(i), std::string(95, 'v'));
  EXPECT_EQ(SizeOf("", "z"), 20u * 100);
  EXPECT_EQ(SizeOf("key20", "key22"), 2u * 100);
  EXPECT_EQ(SizeOf("x", "z"), 0u);
  EXPECT_EQ(SizeOf("z", ""), 0u);
}

TEST_F(DatabaseTest, SnappyMakesTablesSmaller) {
  uint64_t bytes[2] = {};
  for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
    options_.compression = compression;
    ASSERT_FINE(leveldb::DestroyDB(path(), options_));
    ASSERT_FINE(Reopen());
    for (int i = 0; i < 100; ++i) Put(std::to_string(i), std::string(1000, 'x'));
    db_->CompactRange(nullptr, nullptr);
    bytes[compression] = SizeOf("", "a");
    db_.reset();
  }
  EXPECT_LT(bytes[leveldb::kSnappyCompression], bytes[leveldb::kNoCompression] / 4);
}

// LevelDB brings options into its bounds without a word.
TEST_F(DatabaseTest, OptionsOutOfBoundsAreClipped) {
  const leveldb::Options defaults = options_;
  for (const bool large : {false, true}) {
    options_ = defaults;
    options_.write_buffer_size = large ? size_t{1} << 50 : 0;
    options_.max_file_size = large ? size_t{1} << 50 : 0;
    options_.block_size = large ? size_t{1} << 50 : 0;
    options_.max_open_files = large ? 1 << 30 : -1;
    options_.block_restart_interval = large ? 1 << 30 : 0;
    options_.comparator = nullptr;
    options_.env = nullptr;
    options_.compression = leveldb::kSnappyCompression;
    ASSERT_FINE(Reopen());
    Put("a", "1");
    db_->CompactRange(nullptr, nullptr);
    EXPECT_EQ(Get("a"), "1");
    db_.reset();
  }
}

class LineKeeper final : public leveldb::Logger {
 public:
  void Logv(const char* format, std::va_list arguments) override {
    char line[1000];
    std::vsnprintf(line, sizeof(line), format, arguments);
    lines += std::string(line) + "\n";
  }
  std::string lines;
};

TEST_F(DatabaseTest, LogsItsLife) {
  LineKeeper keeper;
  options_.info_log = &keeper;
  options_.compression = static_cast<leveldb::CompressionType>(2);  // Zstandard, elsewhere.
  ASSERT_FINE(Reopen());
  Put("a", std::string(100, 'x'));
  db_.reset();
  EXPECT_NE(keeper.lines.find("compression 2 is not there"), std::string::npos) << keeper.lines;
  EXPECT_NE(keeper.lines.find("opened " + path()), std::string::npos) << keeper.lines;
  EXPECT_NE(keeper.lines.find("closed\n"), std::string::npos) << keeper.lines;
  options_.info_log = nullptr;
  EXPECT_FALSE(leveldb::Env::Default()->FileExists(path() + "/LOG"));
  ASSERT_FINE(Reopen());
  ASSERT_FINE(Reopen());
  for (const char* const name : {"/LOG", "/LOG.old"}) {
    std::string log;
    ASSERT_FINE(leveldb::ReadFileToString(leveldb::Env::Default(), path() + name, &log));
    EXPECT_NE(log.find("opened " + path()), std::string::npos) << log;
  }
}

}  // namespace
}  // namespace dlsm::compat
