// What options point to: objects of the application, which the library knows nothing about, and
// built-in ones, which the application may delete before the database.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/cache.h"
#include "dLSM/filter_policy.h"
#include "db/handle/open_testing.h"
#include "db/test/test_database_testing.h"
#include "db/test/without_rtti_testing.h"

namespace dlsm {
namespace {

// Puts, flushes, merges and reads.
void Use(DB* db) {
  for (const char* value : {"old", "new"}) {
    for (uint64_t i = 0; i < 100; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value));
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  for (int round = 0; round < 2; ++round) {  // The second finds blocks in the cache.
    for (uint64_t i = 0; i < 100; i += 7) ASSERT_EQ(GetOr(db, NumberedKey(i)), "new");
    ASSERT_EQ(GetOr(db, "nothing"), "(none)");
  }
}

// Objects that count the calls to them.

class CountedComparator final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return ++calls, a.compare(b); }
  const char* Name() const override { return ++calls, "test.Counted"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {
    ++calls;
  }
  void FindShortSuccessor(std::string* /*key*/) const override { ++calls; }

  mutable std::atomic<int> calls{0};
};

class CountedFilterPolicy final : public FilterPolicy {
 public:
  const char* Name() const override { return ++calls, "test.CountedFilter"; }
  void CreateFilter(const Slice* /*keys*/, int n, std::string* filter) const override {
    ++calls;
    filter->append(static_cast<size_t>(n), 'x');
  }
  bool KeyMayMatch(const Slice& /*key*/, const Slice& /*filter*/) const override {
    return ++calls > 0;
  }

  mutable std::atomic<int> calls{0};
};

class CountedCache final : public Cache {
 public:
  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice& key, void* value)) override {
    ++calls;
    return cache_->Insert(key, value, charge, deleter);
  }
  Handle* Lookup(const Slice& key) override { return ++calls, cache_->Lookup(key); }
  void Release(Handle* handle) override { ++calls, cache_->Release(handle); }
  void* Value(Handle* handle) override { return ++calls, cache_->Value(handle); }
  void Erase(const Slice& key) override { ++calls, cache_->Erase(key); }
  uint64_t NewId() override { return ++calls, cache_->NewId(); }
  size_t TotalCharge() const override { return ++calls, cache_->TotalCharge(); }

  mutable std::atomic<int> calls{0};

 private:
  const std::unique_ptr<Cache> cache_{NewLRUCache(size_t{1} << 20)};
};

class OwnObjectsTest : public testing::Test {
 protected:
  void OpenAndUse() {
    db_ = OpenOrDie(options_, kName);
    ASSERT_NO_FATAL_FAILURE(Use(db_.get()));
  }
  void CloseAndReopen() {
    EXPECT_OK(db_->Close());
    db_ = OpenOrDie(options_, kName);
    EXPECT_EQ(GetOr(db_.get(), NumberedKey(3)), "new");
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kName); }

  static constexpr char kName[] = "own objects";
  const CountedComparator counted_comparator_{};
  const CountedFilterPolicy counted_policy_{};
  CountedCache counted_cache_;
  Options options_ = TinyOptions();
  std::unique_ptr<DB> db_;
};

// Fails if the library asks for the type of an object that has none.
TEST_F(OwnObjectsTest, NeedNoTypeInformation) {
  const std::unique_ptr<const Comparator> comparator = ComparatorWithoutRtti();
  const std::unique_ptr<const FilterPolicy> policy = FilterPolicyWithoutRtti();
  const std::unique_ptr<Cache> cache = CacheWithoutRtti(size_t{1} << 20);
  const struct {
    const char* what;
    std::function<void(Options*)> set;
  } cases[] = {
      {"a comparator", [&](Options* o) { o->comparator = comparator.get(); }},
      {"a filter policy", [&](Options* o) { o->filter_policy = policy.get(); }},
      {"a cache", [&](Options* o) { o->block_cache = cache.get(); }},
      {"all",
       [&](Options* o) {
         o->comparator = comparator.get();
         o->filter_policy = policy.get();
         o->block_cache = cache.get();
       }},
  };
  for (const auto& each : cases) {
    for (const TableFormat format : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
      SCOPED_TRACE(each.what);
      options_ = TinyOptions();
      options_.table_format = format;
      each.set(&options_);
      ASSERT_NO_FATAL_FAILURE(OpenAndUse());
      CloseAndReopen();
      CloseAndDestroy(&db_, options_, kName);
    }
  }
  EXPECT_GT(cache->TotalCharge(), 0u) << "no database has used it";
}

// Fails if a database uses the policy object, instead of what it says, after Open().
TEST_F(OwnObjectsTest, ABuiltInFilterPolicyMayGoFirst) {
  std::unique_ptr<const FilterPolicy> policy(NewBloomFilterPolicy(10));
  options_.filter_policy = policy.get();
  db_ = OpenOrDie(options_, kName);
  policy.reset();
  Use(db_.get());
  EXPECT_OK(db_->Close());
  policy.reset(NewBloomFilterPolicy(10));
  options_.filter_policy = policy.get();
  db_ = OpenOrDie(options_, kName);
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(3)), "new");
  CloseAndDestroy(&db_, options_, kName);
}

// Fails if a database uses the cache object, instead of the entries that it shares with others,
// after Open(); or if these do not stay as long as any of the objects.
TEST_F(OwnObjectsTest, ABuiltInCacheMayGoFirst) {
  for (const TableFormat format : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
    std::unique_ptr<Cache> cache(NewLRUCache(size_t{1} << 20));
    options_.block_cache = cache.get();
    options_.table_format = format;
    options_.memory_budget = uint64_t{64} << 20;  // Looks at what the cache has.
    db_ = OpenOrDie(options_, kName);
    const std::unique_ptr<DB> second = OpenOrDie(options_, "second");
    Use(second.get());
    EXPECT_EQ(cache->TotalCharge() > 0, format == TableFormat::kBlockBased);
    cache.reset();
    Use(db_.get());
    Use(second.get());
    EXPECT_GT(NumberProperty(db_.get(), "dlsm.approximate-memory-usage"), 0u);
    EXPECT_OK(second->Close());
    options_.block_cache = nullptr;
    CloseAndDestroy(&db_, options_, kName);
    EXPECT_OK(DestroyDB("second", options_));
  }
}

// Fails if a cache of the application's own is touched where no table has blocks, or in the end: it
// may be gone by then.
TEST_F(OwnObjectsTest, ACacheIsLeftAloneWhereItIsNotUsed) {
  const std::atomic<int>& calls = counted_cache_.calls;
  options_.block_cache = &counted_cache_;
  options_.memory_budget = uint64_t{64} << 20;
  OpenAndUse();
  EXPECT_GT(NumberProperty(db_.get(), "dlsm.approximate-memory-usage"), 0u);
  CloseAndDestroy(&db_, options_, kName);
  EXPECT_EQ(calls, 0);
  options_.table_format = TableFormat::kBlockBased;
  OpenAndUse();
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_GT(calls, 0);
  ASSERT_OK(db_->Close());
  counted_cache_.calls = 0;
  db_.reset();
  EXPECT_EQ(calls, 0) << "after Close()";
  EXPECT_OK(DestroyDB(kName, options_));
}

// Fails if Close(), or the destructor, calls what the application may have deleted because nothing
// was left to be flushed.
TEST_F(OwnObjectsTest, AreLeftAloneWhenThereIsNothingToFlush) {
  options_.comparator = &counted_comparator_;
  options_.filter_policy = &counted_policy_;
  for (const bool calls_close : {true, false}) {
    for (const TableFormat format : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
      options_.table_format = format;
      OpenAndUse();
      ASSERT_OK(db_->WaitForBackgroundWork());
      EXPECT_GT(counted_comparator_.calls, 0);
      EXPECT_GT(counted_policy_.calls, 0);
      counted_comparator_.calls = counted_policy_.calls = 0;
      if (calls_close) {
        ASSERT_OK(db_->Close());
      }
      db_.reset();
      EXPECT_EQ(counted_comparator_.calls, 0);
      EXPECT_EQ(counted_policy_.calls, 0);
      ASSERT_OK(DestroyDB(kName, options_));
    }
  }
}

// An order of the application's own may find keys equal of which the bytes differ, and the built-in
// policy goes by bytes. Fails if that is the default there; or if a database that was made with it
// is opened without, or refused without a word about how to open it.
TEST_F(OwnObjectsTest, TheBuiltInFilterPolicyIsNoDefaultForAnotherOrder) {
  options_.comparator = &counted_comparator_;
  OpenAndUse();
  CloseAndReopen();
  EXPECT_OK(db_->Close());
  options_.filter_policy = Options::kNoFilter;
  db_ = OpenOrDie(options_, kName);
  CloseAndDestroy(&db_, options_, kName);

  const std::unique_ptr<const FilterPolicy> bloom(NewBloomFilterPolicy(14));
  options_.filter_policy = bloom.get();  // As a null one meant in former releases.
  OpenAndUse();
  EXPECT_OK(db_->Close());
  options_.filter_policy = nullptr;
  const Status refused = DB::Open(options_, kName, &db_);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_TRUE(Says(refused, "NewBloomFilterPolicy")) << refused.ToString();
  options_.filter_policy = bloom.get();
  db_ = OpenOrDie(options_, kName);
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(3)), "new");
  CloseAndDestroy(&db_, options_, kName);
}

// Fails if a name that is null is read.
TEST_F(OwnObjectsTest, ObjectsWithoutANameAreRefused) {
  class Nameless final : public Comparator, public FilterPolicy {
   public:
    int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
    const char* Name() const override { return nullptr; }
    void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
    void FindShortSuccessor(std::string* /*key*/) const override {}
    void CreateFilter(const Slice* /*keys*/, int /*n*/, std::string* /*filter*/) const override {}
    bool KeyMayMatch(const Slice& /*key*/, const Slice& /*filter*/) const override { return true; }
  };
  const Nameless nameless;
  options_.comparator = &nameless;
  EXPECT_TRUE(DB::Open(options_, kName, &db_).IsInvalidArgument());
  options_.comparator = BytewiseComparator();
  options_.filter_policy = &nameless;
  EXPECT_TRUE(DB::Open(options_, kName, &db_).IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm
