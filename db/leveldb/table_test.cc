// Tables as files.
#include "leveldb/table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/leveldb/leveldb_testing.h"
#include "db/leveldb/no_rtti_testing.h"
#include "leveldb/comparator.h"
#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/table_builder.h"
#include "util/random.h"

namespace dlsm::compat {
namespace {

// A file in memory, for either end.
class Bytes final : public leveldb::RandomAccessFile {
 public:
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    const size_t begin = std::min(static_cast<size_t>(offset), bytes.size());
    const size_t got = std::min(n, bytes.size() - begin);
    bytes.copy(scratch, got, begin);
    *result = leveldb::Slice(scratch, got);
    return leveldb::Status::OK();
  }
  std::string bytes;
};
class Appender final : public leveldb::WritableFile {
 public:
  explicit Appender(std::string* bytes) : bytes_(*bytes) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    if (failing) return leveldb::Status::IOError("full");
    bytes_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  bool failing = false;

 private:
  std::string& bytes_;
};

class TableFileTest : public testing::Test {
 protected:
  TableFileTest() { options_.block_size = 1024; }

  void Build(const std::map<std::string, std::string>& entries) {
    file_.bytes.clear();
    Appender to(&file_.bytes);
    leveldb::TableBuilder builder(options_, &to);
    for (const auto& [key, value] : entries) builder.Add(key, value);
    EXPECT_EQ(builder.NumEntries(), entries.size());
    EXPECT_FINE(builder.Finish());
    EXPECT_EQ(builder.FileSize(), file_.bytes.size());
  }
  leveldb::Status Open() {
    table_.reset();
    leveldb::Table* opened = nullptr;
    leveldb::Status status = leveldb::Table::Open(options_, &file_, file_.bytes.size(), &opened);
    EXPECT_EQ(status.ok(), opened != nullptr);
    table_.reset(opened);
    return status;
  }
  std::unique_ptr<leveldb::Iterator> NewIterator() {
    return std::unique_ptr<leveldb::Iterator>(table_->NewIterator(leveldb::ReadOptions()));
  }

  leveldb::Options options_;
  Bytes file_;
  std::unique_ptr<leveldb::Table> table_;
};

std::map<std::string, std::string> SomeEntries(int count) {
  std::map<std::string, std::string> entries;
  Random random(3);
  for (int i = 0; i < count; ++i) {
    entries["k" + std::to_string(random.Uniform(1000))] =
        std::string(random.Uniform(200), static_cast<char>('a' + i % 26));
  }
  return entries;
}

TEST_F(TableFileTest, ReadsLikeAMap) {
  for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
    options_.compression = compression;
    for (const int count : {0, 1, 500}) {
      const auto model = SomeEntries(count);
      Build(model);
      ASSERT_FINE(Open());
      const auto iterator = NewIterator();
      EXPECT_FALSE(iterator->Valid());
      Random random(5);
      auto at = model.end();
      for (int step = 0; step < 2000; ++step) {
        switch (random.Uniform(at == model.end() ? 3 : 8)) {
          case 0:
            iterator->SeekToFirst();
            at = model.begin();
            break;
          case 1:
            iterator->SeekToLast();
            at = model.empty() ? model.end() : std::prev(model.end());
            break;
          case 2: {
            const std::string key = "k" + std::to_string(random.Uniform(1100));
            iterator->Seek(key);
            at = model.lower_bound(key);
            break;
          }
          case 3:
          case 4:
          case 5:
            iterator->Next();
            ++at;
            break;
          default:
            iterator->Prev();
            at = at == model.begin() ? model.end() : std::prev(at);
            break;
        }
        ASSERT_EQ(iterator->Valid(), at != model.end()) << step;
        if (at == model.end()) continue;
        ASSERT_EQ(iterator->key().ToString(), at->first);
        ASSERT_EQ(iterator->value().ToString(), at->second);
      }
      EXPECT_FINE(iterator->status());
    }
  }
}

TEST_F(TableFileTest, OffsetsGrowWithKeys) {
  options_.compression = leveldb::kNoCompression;
  std::map<std::string, std::string> entries;
  for (int i = 100; i < 200; ++i) entries[std::to_string(i)] = std::string(1000, 'x');
  Build(entries);
  ASSERT_FINE(Open());
  EXPECT_EQ(table_->ApproximateOffsetOf(""), 0u);
  EXPECT_NEAR(static_cast<double>(table_->ApproximateOffsetOf("150")), 50000, 3000);
  EXPECT_NEAR(static_cast<double>(table_->ApproximateOffsetOf("9")), 100000, 3000);
}

// Each byte that is changed, and each one that is missing at the end, is found.
TEST_F(TableFileTest, DamageIsFound) {
  options_.compression = leveldb::kSnappyCompression;
  const auto entries = SomeEntries(30);
  Build(entries);
  const std::string whole = file_.bytes;
  ASSERT_GT(whole.size(), 200u);
  const auto read = [&] {
    leveldb::Status status = Open();
    if (!status.ok()) return status;
    const auto iterator = NewIterator();
    size_t found = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++found;
    status = iterator->status();
    EXPECT_TRUE(!status.ok() || found == entries.size());
    return status;
  };
  EXPECT_FINE(read());
  for (size_t i = 0; i < whole.size(); ++i) {
    file_.bytes = whole;
    file_.bytes[i] = static_cast<char>(file_.bytes[i] ^ 0x40);
    EXPECT_FALSE(read().ok()) << "byte " << i;
    file_.bytes = whole.substr(0, i);
    EXPECT_FALSE(read().ok()) << i << " bytes";
  }
}

TEST_F(TableFileTest, WrongUseIsAnError) {
  Appender to(&file_.bytes);
  leveldb::TableBuilder builder(options_, &to);
  builder.Add("b", "1");
  leveldb::Options others = options_;
  others.block_size = 10;
  EXPECT_FINE(builder.ChangeOptions(others));
  const auto case_blind = CaseBlindComparator();
  others.comparator = case_blind.get();
  EXPECT_TRUE(builder.ChangeOptions(others).IsInvalidArgument());
  builder.Add("b", "2");
  EXPECT_TRUE(builder.status().IsInvalidArgument());
  EXPECT_TRUE(builder.Finish().IsInvalidArgument());
  EXPECT_TRUE(builder.Finish().IsInvalidArgument());

  leveldb::TableBuilder given_up(options_, &to);
  given_up.Add("a", "1");
  given_up.Abandon();

  to.failing = true;
  leveldb::TableBuilder full(options_, &to);
  full.Add("a", "1");
  full.Flush();
  EXPECT_TRUE(full.status().IsIOError());
  full.Add("b", "1");
  EXPECT_TRUE(full.Finish().IsIOError());
}

TEST_F(TableFileTest, AnotherComparatorIsAnError) {
  Build({{"a", "1"}});
  const auto case_blind = CaseBlindComparator();
  options_.comparator = case_blind.get();
  EXPECT_TRUE(Open().IsInvalidArgument());
  file_.bytes = std::string(100, 'x');
  EXPECT_TRUE(Open().IsInvalidArgument());
}

TEST_F(TableFileTest, DumpsAFile) {
  const TemporaryDirectory directory;
  leveldb::Env& env = *leveldb::Env::Default();
  Build({{"a", "1"}, {"b'\n", "\xff"}});
  const std::string name = directory / "table";
  ASSERT_FINE(leveldb::WriteStringToFile(&env, file_.bytes, name));
  std::string dumped;
  Appender to(&dumped);
  EXPECT_FINE(leveldb::DumpFile(&env, name, &to));
  EXPECT_EQ(dumped, "'a' => '1'\n'b\\x27\\x0a' => '\\xff'\n");
  ASSERT_FINE(leveldb::WriteStringToFile(&env, "no table", name));
  EXPECT_TRUE(leveldb::DumpFile(&env, name, &to).IsInvalidArgument());
  EXPECT_TRUE(leveldb::DumpFile(&env, name + "2", &to).IsNotFound());
}

}  // namespace
}  // namespace dlsm::compat
