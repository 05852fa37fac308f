#include "util/cache/value_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/cache.h"
#include "port/failing_allocations_testing.h"
#include "util/coding.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr uint64_t kSmallest = ValueCache::kBytesMin;

// What lies at a place: different for each.
std::string BytesAt(uint64_t table, uint64_t offset, uint64_t bytes) {
  Random random(table << 32 | offset);
  return random.Bytes(bytes);
}

class ValueCacheTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 200;

  void Insert(uint64_t offset, uint64_t table = 1, uint64_t bytes = kBytes) {
    evicted_ += cache_.Insert({table, offset, bytes}, BytesAt(table, offset, bytes)).evicted;
  }
  bool Has(uint64_t offset, uint64_t table = 1, uint64_t bytes = kBytes) {
    Slice found;
    if (!cache_.Lookup({table, offset, bytes}, &found)) return false;
    EXPECT_EQ(found, Slice(BytesAt(table, offset, bytes)));
    return true;
  }
  // Entries that nobody asks for again.
  void Scan(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) Insert(++scanned_, /*table=*/1000);
  }

  ValueCache cache_{kSmallest};
  uint64_t evicted_ = 0;
  uint64_t scanned_ = 0;
};

// Fails if a place is mistaken for another one, or bytes are cut, mixed or overwritten.
TEST_F(ValueCacheTest, HasWhatWasPutThereOrNothing) {
  Random random(1);
  uint64_t hits = 0;
  for (int step = 0; step < 100'000; ++step) {
    const uint64_t table = 1 + random.Uniform(3);
    const uint64_t offset = random.Skewed(10);
    const uint64_t bytes = 1 + (table * 31 + offset * 17) % 900;
    if (Has(offset, table, bytes)) {
      ++hits;
    } else {
      Insert(offset, table, bytes);
    }
    ASSERT_LE(cache_.UsedBytes(), cache_.bytes());
  }
  EXPECT_GT(hits, 30'000u);
  EXPECT_GT(evicted_, 10'000u);
  EXPECT_FALSE(Has(5, /*table=*/4));
}

// Fails if the memory, with all that the cache takes for itself, is more than was asked for.
TEST(ValueCacheSizeTest, TakesNoMoreThanItMay) {
  for (const uint64_t bytes :
       {kSmallest, kSmallest + 1, uint64_t{1} << 20, uint64_t{20'000'003}, uint64_t{300} << 20}) {
    const ValueCache cache(bytes);
    EXPECT_LE(cache.bytes(), bytes);
    EXPECT_GT(cache.bytes(), bytes - bytes / 50);
    EXPECT_EQ(cache.UsedBytes(), 0u);
  }
}

TEST_F(ValueCacheTest, KeepsNothingThatIsLargeBesideIt) {
  const std::string large(kSmallest / 64 + 1, 'v');
  EXPECT_FALSE(cache_.Insert({1, 0, large.size()}, large).inserted);
  const std::string largest(kSmallest / 64, 'v');
  EXPECT_TRUE(cache_.Insert({1, 0, largest.size()}, largest).inserted);
  EXPECT_FALSE(cache_.Insert({1, 0, largest.size()}, largest).inserted) << "it is there";
}

// Fails if a thread takes memory for as long a value as it has asked for, though it is not there.
TEST_F(ValueCacheTest, WhatIsNotThereTakesNoMemory) {
  Insert(1);
  const port::FailingAllocations none(1);
  EXPECT_FALSE(Has(2, /*table=*/1, /*bytes=*/900));
  EXPECT_EQ(none.failed(), 0u);
}

// Fails if a lookup throws, or leaves the thread with less memory than it believes to have: the
// next one would write beyond it.
TEST_F(ValueCacheTest, WhatThereIsNoMemoryForIsNotFound) {
  Insert(1);
  Insert(2, /*table=*/1, /*bytes=*/900);
  EXPECT_TRUE(Has(1));
  {
    const port::FailingAllocations none(1);
    EXPECT_FALSE(Has(2, /*table=*/1, /*bytes=*/900));
    EXPECT_EQ(none.failed(), 1u);
    EXPECT_TRUE(Has(1)) << "there is memory for this one";
  }
  {
    const port::FailingAllocations none(1);
    EXPECT_FALSE(Has(2, /*table=*/1, /*bytes=*/900)) << "there is none for it still";
  }
  EXPECT_TRUE(Has(2, /*table=*/1, /*bytes=*/900));
}

// Fails if what is read once pushes out what is read often, as it does where what was used last
// stays (LRU).
TEST_F(ValueCacheTest, ScansPushNothingOut) {
  Scan(1000);
  constexpr uint64_t kHot = 100;
  for (int round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < kHot; ++i) {
      if (!Has(i)) Insert(i);
    }
  }
  Scan(10'000);
  uint64_t there = 0;
  for (uint64_t i = 0; i < kHot; ++i) there += Has(i) ? 1 : 0;
  EXPECT_GT(there, kHot * 9 / 10);
}

// Fails if who comes back soon after it left is treated like who comes for the first time.
TEST_F(ValueCacheTest, WhoComesBackSoonStays) {
  Scan(1000);  // The main ring is full.
  constexpr uint64_t kMany = 20;
  for (uint64_t i = 0; i < kMany; ++i) Insert(i);
  Scan(60);
  for (uint64_t i = 0; i < kMany; ++i) EXPECT_FALSE(Has(i)) << "it had its time";
  for (uint64_t i = 0; i < kMany; ++i) Insert(i);
  for (uint64_t i = 100; i < 100 + kMany; ++i) Insert(i);  // For the first time.
  Scan(60);
  uint64_t came_back = 0;
  uint64_t came_first = 0;
  for (uint64_t i = 0; i < kMany; ++i) {
    came_back += Has(i) ? 1 : 0;
    came_first += Has(100 + i) ? 1 : 0;
  }
  EXPECT_GE(came_back, kMany - 2);
  EXPECT_EQ(came_first, 0u);
}

// Fails if records of tables that were merged away are kept because they were read often.
TEST_F(ValueCacheTest, DeadTablesGoFirst) {
  constexpr uint64_t kOfEach = 120;  // Two tables' fill the main ring.
  const auto count = [this](uint64_t table) {
    uint64_t there = 0;
    for (uint64_t i = 0; i < kOfEach; ++i) there += Has(i, table) ? 1 : 0;
    return there;
  };
  for (const uint64_t table : {1, 2}) {
    for (uint64_t i = 0; i < kOfEach; ++i) {
      Insert(i, table);
      for (int read = 0; read < 3; ++read) Has(i, table);
    }
  }
  Scan(100);
  const uint64_t living = count(1);
  ASSERT_GT(living, kOfEach / 2);
  ASSERT_GT(count(2), kOfEach / 2);
  cache_.NoteDead(2);
  for (uint64_t i = 0; i < kOfEach; ++i) {
    Insert(i, /*table=*/3);
    for (int read = 0; read < 3; ++read) Has(i, /*table=*/3);
  }
  // The ring's tail comes to the older living ones first, and lets them stay.
  EXPECT_GT(count(1), living * 9 / 10);
  EXPECT_LT(count(2), kOfEach / 2);
}

// A trace of skewed reads with scans in between, through this and through the LRU cache of as many
// bytes. Fails if scans cost as much here as there.
TEST(ValueCachePolicyTest, BeatsLruOnSkewedReadsWithScans) {
  constexpr uint64_t kCacheBytes = uint64_t{1} << 20;
  constexpr uint64_t kBytes = 400;
  constexpr uint64_t kKeys = 100'000;
  ValueCache cache(kCacheBytes);
  const std::unique_ptr<Cache> lru(NewLRUCache(kCacheBytes));
  const std::string value(kBytes, 'v');
  Random random(7);
  uint64_t reads = 0;
  uint64_t hits = 0;
  uint64_t lru_hits = 0;
  const auto read = [&](uint64_t key) {
    Slice found;
    const bool here = cache.Lookup({1, key, kBytes}, &found);
    if (!here) cache.Insert({1, key, kBytes}, value);
    char encoded[8];
    EncodeFixed64(encoded, key);
    const Slice name(encoded, sizeof(encoded));
    Cache::Handle* handle = lru->Lookup(name);
    const bool there = handle != nullptr;
    if (!there) handle = lru->Insert(name, nullptr, kBytes, [](const Slice&, void*) {});
    lru->Release(handle);
    return std::pair(here, there);
  };
  uint64_t scan = kKeys;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 5000; ++i) {
      // Zipfian, roughly: the logarithm of the rank is uniform.
      const auto [here, there] = read(static_cast<uint64_t>(std::pow(kKeys, random.NextDouble())));
      ++reads;
      hits += here ? 1 : 0;
      lru_hits += there ? 1 : 0;
    }
    for (int i = 0; i < 3000; ++i) read(scan++);
  }
  RecordProperty("hits_percent", static_cast<int>(100 * hits / reads));
  RecordProperty("lru_hits_percent", static_cast<int>(100 * lru_hits / reads));
  EXPECT_GT(hits, lru_hits + reads / 20) << lru_hits << " of " << reads;
}

// Fails if a reader takes what is just being overwritten for what it asked for; ThreadSanitizer
// sees more.
TEST(ValueCacheThreadsTest, ReadersNeverSeeHalfOfAnEntry) {
  ValueCache cache(kSmallest);
  constexpr int kThreads = 4;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&cache, &wrong, &hits, thread] {
      Random random(thread);
      uint64_t mine = 0;
      for (int step = 0; step < 60'000; ++step) {
        const uint64_t offset = random.Skewed(11);
        const uint64_t bytes = 8 + offset * 13 % 500;
        const EntryKey key{1, offset, bytes};
        Slice found;
        if (cache.Lookup(key, &found)) {
          ++mine;
          for (const char byte : found.ToStringView()) {
            if (byte != static_cast<char>(offset)) wrong.fetch_add(1);
          }
        } else {
          cache.Insert(key, std::string(bytes, static_cast<char>(offset)));
        }
        if (step % 1000 == 0 && cache.UsedBytes() > cache.bytes()) wrong.fetch_add(1);
      }
      hits.fetch_add(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(hits.load(), 10'000u);
}

}  // namespace
}  // namespace dlsm
