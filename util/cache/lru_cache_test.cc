#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/cache.h"
#include "port/failing_allocations_testing.h"
#include "util/cache/share_cache.h"
#include "util/child_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

// Values are counters that their deletion raises.
void CountDeletion(const Slice&, void* value) {
  static_cast<std::atomic<int>*>(value)->fetch_add(1);
}

class LruCacheTest : public testing::Test {
 protected:
  static constexpr size_t kCapacity = 1600;  // 100 for each shard.

  void Add(const std::string& key, size_t charge = 1) {
    cache_->Release(cache_->Insert(key, &deleted_, charge, CountDeletion));
  }
  bool Has(const std::string& key) {
    Cache::Handle* handle = cache_->Lookup(key);
    if (handle == nullptr) return false;
    cache_->Release(handle);
    return true;
  }

  // Before the cache: entries that it still holds at its end are counted then.
  std::atomic<int> deleted_{0};
  std::atomic<int> other_{0};
  std::unique_ptr<Cache> cache_{NewLRUCache(kCapacity)};
};

TEST_F(LruCacheTest, KeepsAllWithoutALimit) {
  cache_.reset(NewLRUCache(SIZE_MAX));
  Add("a", 7);
  EXPECT_TRUE(Has("a"));
}

TEST_F(LruCacheTest, FindsWhatWasInserted) {
  EXPECT_FALSE(Has("a"));
  Add("a", 7);
  Add("", 1);
  EXPECT_TRUE(Has("a"));
  EXPECT_TRUE(Has(""));
  EXPECT_EQ(cache_->TotalCharge(), 8u);
  cache_->Erase("a");
  EXPECT_FALSE(Has("a"));
  EXPECT_EQ(deleted_, 1);
  cache_.reset();
  EXPECT_EQ(deleted_, 2);
}

TEST_F(LruCacheTest, ALaterInsertReplaces) {
  Add("a");
  cache_->Release(cache_->Insert("a", &other_, 1, CountDeletion));
  EXPECT_EQ(deleted_, 1);
  Cache::Handle* handle = cache_->Lookup("a");
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(cache_->Value(handle), &other_);
  cache_->Release(handle);
  EXPECT_EQ(cache_->TotalCharge(), 1u);
}

// Fails if an entry in use is deleted: readers would read freed blocks.
TEST_F(LruCacheTest, HandlesKeepEntriesAlive) {
  Cache::Handle* held = cache_->Insert("a", &deleted_, 1, CountDeletion);
  Cache::Handle* again = cache_->Lookup("a");
  cache_->Erase("a");
  EXPECT_FALSE(Has("a"));
  Add("a");  // Another entry of the same key must not be confused with the erased one.
  cache_->Release(held);
  EXPECT_EQ(deleted_, 0);
  EXPECT_EQ(cache_->Value(again), &deleted_);
  cache_->Release(again);
  EXPECT_EQ(deleted_, 1);
  EXPECT_TRUE(Has("a"));
}

TEST_F(LruCacheTest, EvictsTheLongestUnused) {
  Add("hot");
  for (int i = 0; i < 10000; ++i) {
    Add("cold" + std::to_string(i));
    ASSERT_TRUE(Has("hot")) << i;
    ASSERT_LE(cache_->TotalCharge(), kCapacity);
  }
  EXPECT_FALSE(Has("cold0"));
  EXPECT_GE(deleted_, 8000);
}

TEST_F(LruCacheTest, EntriesInUseAreNotEvicted) {
  std::vector<Cache::Handle*> held;
  for (size_t i = 0; i < 2 * kCapacity; ++i) {
    held.push_back(cache_->Insert("key" + std::to_string(i), &deleted_, 1, CountDeletion));
  }
  EXPECT_EQ(deleted_, 0);
  EXPECT_EQ(cache_->TotalCharge(), 2 * kCapacity);
  for (Cache::Handle* handle : held) cache_->Release(handle);
  EXPECT_LE(cache_->TotalCharge(), kCapacity);
}

TEST_F(LruCacheTest, PruneLeavesWhatIsInUse) {
  Cache::Handle* held = cache_->Insert("held", &deleted_, 1, CountDeletion);
  Add("unused");
  cache_->Prune();
  EXPECT_TRUE(Has("held"));
  EXPECT_FALSE(Has("unused"));
  cache_->Release(held);
}

TEST_F(LruCacheTest, ZeroCapacityCachesNothing) {
  cache_.reset(NewLRUCache(0));
  Cache::Handle* handle = cache_->Insert("a", &deleted_, 1, CountDeletion);
  EXPECT_EQ(cache_->Value(handle), &deleted_);
  EXPECT_FALSE(Has("a"));
  cache_->Release(handle);
  EXPECT_EQ(deleted_, 1);
}

// Fails if a value that there is no memory to insert is neither there nor deleted: reads that are
// tried again and again would take what memory there is.
TEST_F(LruCacheTest, WhatCannotBeInsertedIsDeleted) {
  for (const int made : {0, 1}) {
    SCOPED_TRACE(made);
    deleted_ = 0;
    {
      const port::FailingAllocationsAt failing("cache entry", made);
      EXPECT_THROW(Add("a"), std::bad_alloc);
      EXPECT_EQ(failing.failed(), 1u);
    }
    EXPECT_EQ(deleted_, 1);
    EXPECT_FALSE(Has("a"));
    EXPECT_EQ(cache_->TotalCharge(), 0u);
  }
  Add("a");
  EXPECT_TRUE(Has("a"));
}

// Fails if entries go with the first object that has them, or stay beyond the last.
TEST_F(LruCacheTest, EntriesStayAsLongAsAnybodySharesThem) {
  std::shared_ptr<Cache> shared = ShareCache(cache_.get());
  const uint64_t id = cache_->NewId();
  Add("a", 10);
  cache_.reset();
  EXPECT_EQ(deleted_, 0);
  EXPECT_EQ(shared->TotalCharge(), 10u);
  Cache::Handle* const handle = shared->Lookup("a");
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(shared->Value(handle), &deleted_);
  shared->Release(handle);
  EXPECT_NE(shared->NewId(), id);
  shared.reset();
  EXPECT_EQ(deleted_, 1);
}

TEST_F(LruCacheTest, NoHandleIsNoEntry) {
  cache_->Release(nullptr);
  EXPECT_EQ(cache_->Value(nullptr), nullptr);
}

TEST_F(LruCacheTest, IdsDiffer) { EXPECT_NE(cache_->NewId(), cache_->NewId()); }

// Fails if counts go wrong under concurrency: every inserted entry must be deleted exactly once,
// and none while a handle is held.
TEST_F(LruCacheTest, ManyThreads) {
  struct Block {
    std::atomic<int>* deleted;
    std::atomic<bool> alive{true};
  };
  const auto drop = [](const Slice&, void* value) {
    const std::unique_ptr<Block> block(static_cast<Block*>(value));
    EXPECT_TRUE(block->alive.exchange(false));
    block->deleted->fetch_add(1);
  };
  std::atomic<int> inserted{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      Random random(seed);
      for (int i = 0; i < 20000; ++i) {
        const std::string key = std::to_string(random.Uniform(3000));
        if (random.OneIn(50)) {
          cache_->Erase(key);
          continue;
        }
        Cache::Handle* handle = cache_->Lookup(key);
        if (handle == nullptr) {
          auto block = std::make_unique<Block>();
          block->deleted = &deleted_;
          handle = cache_->Insert(key, block.release(), 1, drop);
          ++inserted;
        }
        EXPECT_TRUE(static_cast<Block*>(cache_->Value(handle))->alive);
        cache_->Release(handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache_.reset();
  EXPECT_EQ(deleted_, inserted);
}

// Fails if a child waits for a lock that a thread of its parent held, or deletes what its parent
// has in the cache; or if the cache is of no use to it.
TEST_F(LruCacheTest, AChildFindsItEmpty) {
  Add("a");
  std::atomic<bool> stop{false};
  std::thread other([this, &stop] {
    while (!stop.load()) EXPECT_TRUE(Has("a"));
  });
  for (int i = 0; i < 10; ++i) {
    InChild([this] {
      EXPECT_FALSE(Has("a"));
      EXPECT_EQ(cache_->TotalCharge(), 0u);
      Add("a");
      EXPECT_TRUE(Has("a"));
      cache_.reset();
      EXPECT_EQ(deleted_, 1);
    });
  }
  stop.store(true);
  other.join();
  EXPECT_TRUE(Has("a"));
  EXPECT_EQ(deleted_, 0);
}

}  // namespace
}  // namespace dlsm
