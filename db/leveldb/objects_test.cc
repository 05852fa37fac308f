// Objects that a program gives a database: comparators, filter policies, caches, and their
// lifetimes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "db/leveldb/leveldb_testing.h"
#include "db/leveldb/no_rtti_testing.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/filter_policy.h"

namespace dlsm::compat {
namespace {

using ObjectsTest = LevelDbTest;

// Equal keys of other bytes are found in memtables and in tables, and merges drop older ones: these
// run where the comparator is.
TEST_F(ObjectsTest, ComparatorOfTheProgram) {
  const auto comparator = CaseBlindComparator();
  options_.comparator = comparator.get();
  ASSERT_FINE(Reopen());
  Put("Key", "1");
  EXPECT_EQ(Get("KEY"), "1");
  ASSERT_FINE(Reopen());
  EXPECT_EQ(Get("KEY"), "1");
  Put("kEy", "2");
  Put("a", "3");
  db_->CompactRange(nullptr, nullptr);
  EXPECT_EQ(Get("key"), "2");
  EXPECT_EQ(Scan(), "a=3 kEy=2 ");
  db_.reset();
  options_.comparator = leveldb::BytewiseComparator();
  EXPECT_EQ(ErrorOfOpen(path()),
            "Invalid argument: case blind does not match existing comparator : "
            "leveldb.BytewiseComparator");
}

TEST_F(ObjectsTest, BytewiseComparatorShortensKeys) {
  const leveldb::Comparator& bytewise = *leveldb::BytewiseComparator();
  EXPECT_STREQ(bytewise.Name(), "leveldb.BytewiseComparator");
  EXPECT_LT(bytewise.Compare("a", "b"), 0);
  std::string key = "abcdef";
  bytewise.FindShortestSeparator(&key, "abzz");
  EXPECT_LE(bytewise.Compare("abcdef", key), 0);
  EXPECT_LT(bytewise.Compare(key, "abzz"), 0);
  EXPECT_LT(key.size(), 6u);
  key =
      "\xff\xff"
      "bcd";
  bytewise.FindShortSuccessor(&key);
  EXPECT_EQ(key,
            "\xff\xff"
            "c");
  key = "\xff\xff";
  bytewise.FindShortSuccessor(&key);
  EXPECT_EQ(key, "\xff\xff");
}

// The program's policy decides; and a database may be opened with another one, or none, as in
// LevelDB.
TEST_F(ObjectsTest, FilterPolicyMayChange) {
  std::atomic<bool> matches = true;
  const auto fake = FakeFilterPolicy(&matches);
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  for (const leveldb::FilterPolicy* const first : {fake.get(), bloom.get(), fake.get()}) {
    options_.filter_policy = first;
    ASSERT_FINE(Reopen());
    Put("a", "1");
    db_->CompactRange(nullptr, nullptr);
    EXPECT_EQ(Get("a"), "1");
    for (const leveldb::FilterPolicy* const next :
         std::vector<const leveldb::FilterPolicy*>{nullptr, fake.get(), bloom.get()}) {
      options_.filter_policy = next;
      ASSERT_FINE(Reopen());
      EXPECT_EQ(Get("a"), "1");
      Put("b", "2");
      db_->CompactRange(nullptr, nullptr);
      EXPECT_EQ(Get("b"), "2");
    }
    db_.reset();
    ASSERT_FINE(leveldb::DestroyDB(path(), options_));
  }
  options_.filter_policy = fake.get();
  ASSERT_FINE(Reopen());
  Put("a", "1");
  db_->CompactRange(nullptr, nullptr);
  matches = false;
  EXPECT_EQ(Get("a"), "NotFound: ");
}

TEST_F(ObjectsTest, FilterPolicyWithAComparatorOfTheProgram) {
  const auto comparator = CaseBlindComparator();
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  options_.comparator = comparator.get();
  for (const bool with : {false, true}) {
    options_.filter_policy = with ? bloom.get() : nullptr;
    ASSERT_FINE(Reopen());
    Put("a", "1");
    options_.filter_policy = with ? nullptr : bloom.get();
    ASSERT_FINE(Reopen());
    EXPECT_EQ(Get("a"), "1");
    db_.reset();
    ASSERT_FINE(leveldb::DestroyDB(path(), options_));
  }
}

TEST_F(ObjectsTest, BloomFiltersDenyMostKeys) {
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(std::to_string(i));
  const std::vector<leveldb::Slice> slices(keys.begin(), keys.end());
  std::string filter = "before";
  bloom->CreateFilter(slices.data(), 1000, &filter);
  ASSERT_EQ(filter.find("before"), 0u);
  filter.erase(0, 6);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(bloom->KeyMayMatch(keys[static_cast<size_t>(i)], filter));
    found += bloom->KeyMayMatch(std::to_string(i + 1000), filter) ? 1 : 0;
  }
  EXPECT_LT(found, 40);
}

// The built-in objects may go before the database.
TEST_F(ObjectsTest, BuiltInObjectsGoFirst) {
  for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
    std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
    std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
    options_.compression = compression;
    options_.filter_policy = bloom.get();
    options_.block_cache = cache.get();
    ASSERT_FINE(Reopen());
    Put("a", "1");
    db_->CompactRange(nullptr, nullptr);
    EXPECT_EQ(Get("a"), "1");
    Put("b", "2");
    bloom.reset();
    cache.reset();
    const std::vector<std::string> others(200, std::string(100, 'x'));
    EXPECT_EQ(Get("a"), "1");
    db_.reset();
  }
}

TEST_F(ObjectsTest, CacheOfTheProgramGetsBlocks) {
  std::atomic<int> insertions = 0;
  const auto cache = CountingCache(1 << 20, &insertions);
  options_.block_cache = cache.get();
  ASSERT_FINE(Reopen());
  Put("a", std::string(1000, 'v'));
  db_->CompactRange(nullptr, nullptr);
  EXPECT_EQ(Get("a").size(), 1000u);
  EXPECT_GT(insertions, 0);
  EXPECT_GT(cache->TotalCharge(), 0u);
  const int before = insertions;
  EXPECT_EQ(Get("a").size(), 1000u);
  EXPECT_EQ(insertions, before);
  db_.reset();
}

int deleted_sum = 0;

TEST(LruCacheTest, KeepsWhatIsUsed) {
  deleted_sum = 0;
  const auto deleter = [](const leveldb::Slice& key, void* value) {
    deleted_sum += *static_cast<int*>(value) + static_cast<int>(key.size());
  };
  int values[] = {1, 20, 300};
  std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(100));
  cache->Release(cache->Insert("a", &values[0], 1, deleter));
  EXPECT_EQ(cache->TotalCharge(), 1u);
  leveldb::Cache::Handle* const found = cache->Lookup("a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(cache->Value(found), &values[0]);
  EXPECT_EQ(cache->Lookup("b"), nullptr);
  cache->Erase("a");
  EXPECT_EQ(cache->Lookup("a"), nullptr);
  EXPECT_EQ(deleted_sum, 0);  // It is in use.
  cache->Release(found);
  EXPECT_EQ(deleted_sum, 2);
  cache->Release(cache->Insert("bb", &values[1], 1, deleter));
  cache->Prune();
  EXPECT_EQ(deleted_sum, 24);
  cache->Release(cache->Insert("c", &values[2], 1, deleter));
  EXPECT_NE(cache->NewId(), cache->NewId());
  cache.reset();
  EXPECT_EQ(deleted_sum, 325);
}

}  // namespace
}  // namespace dlsm::compat
