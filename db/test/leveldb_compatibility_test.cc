// A program as LevelDB's users write them, in the words of LevelDB's documentation. It compiles and
// behaves with nothing changed but the include folder and this alias; and it looks at the Status of
// CompactRange(), which is void in LevelDB.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"

namespace leveldb = dlsm;

namespace {

const char kDatabasePath[] = "/tmp/testdb";

class LevelDbProgram : public testing::Test {
 protected:
  void SetUp() override {
    options_.create_if_missing = true;
    options_.write_buffer_size = 4 << 20;
  }
  void TearDown() override {
    delete db_;
    EXPECT_TRUE(leveldb::DestroyDB(kDatabasePath, options_).ok());
  }
  void Open() {
    delete db_;
    db_ = nullptr;
    leveldb::Status status = leveldb::DB::Open(options_, kDatabasePath, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  leveldb::Options options_;
  leveldb::DB* db_ = nullptr;
};

TEST_F(LevelDbProgram, OpensAndCloses) {
  leveldb::DB* db;
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::Status status = leveldb::DB::Open(options, kDatabasePath, &db);
  ASSERT_TRUE(status.ok()) << status.ToString();
  delete db;

  options.error_if_exists = true;
  status = leveldb::DB::Open(options, kDatabasePath, &db);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(status.IsNotFound() || status.IsCorruption() || status.IsIOError());
  EXPECT_FALSE(status.ToString().empty());

  leveldb::Options missing;
  EXPECT_TRUE(leveldb::DB::Open(missing, "/tmp/there_is_none", &db).IsInvalidArgument());
}

// Moves the value of one key to another, first call by call, then at once.
TEST_F(LevelDbProgram, ReadsWritesAndAtomicUpdates) {
  Open();
  leveldb::DB* db = db_;
  const leveldb::Slice key1 = "key1";
  const leveldb::Slice key2 = "key2";
  leveldb::WriteOptions write_options;
  write_options.sync = true;
  ASSERT_TRUE(db->Put(write_options, key1, "value").ok());
  std::string value;
  leveldb::Status s = db->Get(leveldb::ReadOptions(), key1, &value);
  if (s.ok()) s = db->Put(leveldb::WriteOptions(), key2, value);
  if (s.ok()) s = db->Delete(leveldb::WriteOptions(), key1);
  ASSERT_TRUE(s.ok());
  EXPECT_TRUE(db->Get(leveldb::ReadOptions(), key1, &value).IsNotFound());
  s = db->Get(leveldb::ReadOptions(), key2, &value);
  if (s.ok()) {
    leveldb::WriteBatch batch;
    batch.Delete(key2);
    batch.Put(key1, value);
    s = db->Write(leveldb::WriteOptions(), &batch);
  }
  ASSERT_TRUE(s.ok());
  EXPECT_TRUE(db->Get(leveldb::ReadOptions(), key1, &value).ok());
  EXPECT_EQ("value", value);
  EXPECT_TRUE(db->Get(leveldb::ReadOptions(), key2, &value).IsNotFound());
}

TEST_F(LevelDbProgram, Iterates) {
  Open();
  leveldb::DB* db = db_;
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(db->Put(leveldb::WriteOptions(), key, std::string("v") + key).ok());
  }
  std::string seen;
  leveldb::Iterator* it = db->NewIterator(leveldb::ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    seen += it->key().ToString() + ":" + it->value().ToString() + " ";
  }
  EXPECT_TRUE(it->status().ok());
  EXPECT_EQ("a:va b:vb c:vc d:vd ", seen);

  seen.clear();
  const std::string start = "b";
  const std::string limit = "d";
  for (it->Seek(start); it->Valid() && it->key().ToString() < limit; it->Next()) {
    seen += it->key().ToString();
  }
  EXPECT_EQ("bc", seen);

  seen.clear();
  for (it->SeekToLast(); it->Valid(); it->Prev()) seen += it->key().ToString();
  EXPECT_EQ("dcba", seen);

  bool cleaned = false;
  it->RegisterCleanup([](void* flag, void*) { *static_cast<bool*>(flag) = true; }, &cleaned,
                      nullptr);
  delete it;
  EXPECT_TRUE(cleaned);
}

TEST_F(LevelDbProgram, Snapshots) {
  Open();
  leveldb::DB* db = db_;
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a", "before").ok());
  leveldb::ReadOptions options;
  options.snapshot = db->GetSnapshot();
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "a", "after").ok());
  leveldb::Iterator* iter = db->NewIterator(options);
  iter->SeekToFirst();
  ASSERT_TRUE(iter->Valid());
  EXPECT_EQ("before", iter->value().ToString());
  delete iter;
  db->ReleaseSnapshot(options.snapshot);
}

TEST_F(LevelDbProgram, Slices) {
  leveldb::Slice s1 = "hello";
  std::string str("world");
  leveldb::Slice s2 = str;
  EXPECT_EQ("hello", s1.ToString());
  EXPECT_EQ(str, std::string(s2.data(), s2.size()));
  EXPECT_LT(s1.compare(s2), 0);
  EXPECT_TRUE(s1 != s2);
  EXPECT_TRUE(s1.starts_with("he"));
  s1.remove_prefix(2);
  EXPECT_TRUE(s1 == leveldb::Slice("llo", 3));
  EXPECT_EQ('l', s1[0]);
  s1.clear();
  EXPECT_TRUE(s1.empty());
}

// Two-part keys "a:b", by the numbers in them.
class TwoPartComparator : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    int a1, a2, b1, b2;
    ParseKey(a, &a1, &a2);
    ParseKey(b, &b1, &b2);
    if (a1 < b1) return -1;
    if (a1 > b1) return +1;
    if (a2 < b2) return -1;
    if (a2 > b2) return +1;
    return 0;
  }
  const char* Name() const override { return "TwoPartComparator"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  static void ParseKey(const leveldb::Slice& key, int* first, int* second) {
    *first = *second = 0;
    const std::string text = key.ToString();
    if (std::sscanf(text.c_str(), "%d:%d", first, second) != 2) *first = -1;
  }
};

TEST_F(LevelDbProgram, Comparators) {
  TwoPartComparator cmp;
  options_.comparator = &cmp;
  Open();
  for (const char* key : {"10:1", "9:20", "9:3"}) {
    ASSERT_TRUE(db_->Put(leveldb::WriteOptions(), key, "").ok());
  }
  ASSERT_TRUE(db_->CompactRange(nullptr, nullptr).ok());
  std::string seen;
  leveldb::Iterator* it = db_->NewIterator(leveldb::ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) seen += it->key().ToString() + " ";
  delete it;
  EXPECT_EQ("9:3 9:20 10:1 ", seen);

  delete db_;
  db_ = nullptr;
  leveldb::Options other;
  leveldb::DB* db = nullptr;
  EXPECT_FALSE(leveldb::DB::Open(other, kDatabasePath, &db).ok())
      << "another order must be refused";
  ASSERT_TRUE(leveldb::DestroyDB(kDatabasePath, options_).ok());
  options_.comparator = leveldb::BytewiseComparator();
}

// Compares keys without their trailing spaces, and filters them alike.
class CustomFilterPolicy : public leveldb::FilterPolicy {
 public:
  CustomFilterPolicy() : builtin_policy_(leveldb::NewBloomFilterPolicy(10)) {}
  ~CustomFilterPolicy() override { delete builtin_policy_; }
  const char* Name() const override { return "IgnoreTrailingSpacesFilter"; }
  void CreateFilter(const leveldb::Slice* keys, int n, std::string* dst) const override {
    std::vector<leveldb::Slice> trimmed(static_cast<size_t>(n));
    for (size_t i = 0; i < trimmed.size(); i++) trimmed[i] = RemoveTrailingSpaces(keys[i]);
    builtin_policy_->CreateFilter(trimmed.data(), n, dst);
  }
  bool KeyMayMatch(const leveldb::Slice& key, const leveldb::Slice& filter) const override {
    return builtin_policy_->KeyMayMatch(RemoveTrailingSpaces(key), filter);
  }

 private:
  static leveldb::Slice RemoveTrailingSpaces(leveldb::Slice key) {
    while (!key.empty() && key[key.size() - 1] == ' ') key.remove_suffix(1);
    return key;
  }
  const leveldb::FilterPolicy* builtin_policy_;
};

TEST_F(LevelDbProgram, PerformanceOptions) {
  CustomFilterPolicy custom;
  std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
  for (const leveldb::FilterPolicy* policy :
       {bloom.get(), static_cast<const leveldb::FilterPolicy*>(&custom)}) {
    options_.block_size = 4096;
    options_.block_restart_interval = 16;
    options_.max_file_size = 2 << 20;
    options_.max_open_files = 100;
    options_.reuse_logs = false;
    options_.compression = leveldb::kNoCompression;
    options_.block_cache = cache.get();
    options_.filter_policy = policy;
    options_.paranoid_checks = true;
    Open();
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(db_->Put(leveldb::WriteOptions(), std::to_string(i), std::string(100, 'v')).ok());
    }
    ASSERT_TRUE(db_->CompactRange(nullptr, nullptr).ok());
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;
    std::string value;
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(db_->Get(options, std::to_string(i), &value).ok());
    EXPECT_TRUE(db_->Get(options, "none", &value).IsNotFound());
    delete db_;
    db_ = nullptr;
    ASSERT_TRUE(leveldb::DestroyDB(kDatabasePath, options_).ok());
  }
  options_ = leveldb::Options();
}

TEST_F(LevelDbProgram, ApproximateSizesAndCompaction) {
  Open();
  leveldb::DB* db = db_;
  for (char c = 'a'; c <= 'z'; ++c) {
    for (int i = 0; i < 100; ++i) {
      const std::string key = c + std::to_string(i);
      ASSERT_TRUE(db->Put(leveldb::WriteOptions(), key, std::string(1000, c)).ok());
    }
  }
  const leveldb::Slice begin = "a";
  const leveldb::Slice end = "zz";
  ASSERT_TRUE(db->CompactRange(&begin, &end).ok());
  leveldb::Range ranges[2];
  ranges[0] = leveldb::Range("a", "c");
  ranges[1] = leveldb::Range("x", "z");
  uint64_t sizes[2];
  db->GetApproximateSizes(ranges, 2, sizes);
  for (const uint64_t size : sizes) {
    EXPECT_GT(size, 100000u);
    EXPECT_LT(size, 400000u);
  }
  std::string property;
  EXPECT_FALSE(db->GetProperty("there.is.none", &property));
  // What was written last is in the memtable.
  std::string before;
  ASSERT_TRUE(db->GetProperty("leveldb.approximate-memory-usage", &before));
  ASSERT_TRUE(db->Put(leveldb::WriteOptions(), "large", std::string(200000, 'l')).ok());
  ASSERT_TRUE(db->GetProperty("leveldb.approximate-memory-usage", &property));
  char* end_of_number;
  EXPECT_GT(std::strtoull(property.c_str(), &end_of_number, 10),
            100000 + std::strtoull(before.c_str(), nullptr, 10));
  EXPECT_EQ(*end_of_number, '\0') << property;
}

class Recorder : public leveldb::WriteBatch::Handler {
 public:
  void Put(const leveldb::Slice& key, const leveldb::Slice&) override { seen += key.ToString(); }
  void Delete(const leveldb::Slice& key) override { seen += "-" + key.ToString(); }
  std::string seen;
};

TEST_F(LevelDbProgram, WriteBatches) {
  leveldb::WriteBatch batch;
  batch.Put("a", "1");
  leveldb::WriteBatch more;
  more.Delete("b");
  batch.Append(more);
  EXPECT_GT(batch.ApproximateSize(), 0u);
  Recorder recorder;
  EXPECT_TRUE(batch.Iterate(&recorder).ok());
  EXPECT_EQ("a-b", recorder.seen);
  batch.Clear();
  Recorder empty;
  EXPECT_TRUE(batch.Iterate(&empty).ok());
  EXPECT_EQ("", empty.seen);
}

TEST_F(LevelDbProgram, BuiltInPieces) {
  EXPECT_LT(leveldb::BytewiseComparator()->Compare("a", "b"), 0);
  std::unique_ptr<leveldb::Iterator> empty(leveldb::NewEmptyIterator());
  EXPECT_FALSE(empty->Valid());
  std::unique_ptr<leveldb::Iterator> error(
      leveldb::NewErrorIterator(leveldb::Status::Corruption("a", "b")));
  EXPECT_TRUE(error->status().IsCorruption());
  EXPECT_TRUE(leveldb::Status::NotSupported("x").IsNotSupportedError());
  EXPECT_GE(leveldb::kMajorVersion + leveldb::kMinorVersion, 1);
}

}  // namespace
