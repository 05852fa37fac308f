// Options::value_cache_size: what whole databases answer from it, and what they never do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "db/test/test_database_testing.h"
#include "db/tree/cached_records.h"
#include "util/cache/value_cache.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kCachedKeys = 2000;

std::string CachedValue(uint64_t number, uint64_t round) {
  return std::to_string(number) + "/" + std::to_string(round) + std::string(number % 300, 'v');
}

class ValueCacheDbTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.value_cache_size = uint64_t{4} << 20;
    options_.fault_injector = std::make_shared<FaultInjector>();
    options_.fault_injector->OnlyPurpose(Purpose::kRead);
    node_ = NodeServing(GetParam(), &options_);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kName); }

  void Open() { db_ = OpenOrDie(options_, kName); }
  void Fill(uint64_t round) {
    for (uint64_t i = 0; i < kCachedKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), CachedValue(i, round)));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(db_->WaitForBackgroundWork());
  }
  void ExpectAll(uint64_t round, const ReadOptions& read = ReadOptions()) {
    for (uint64_t i = 0; i < kCachedKeys; ++i) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i), read), CachedValue(i, round));
    }
  }
  uint64_t Count(Ticker ticker) { return db_->GetStatistics()->Get(ticker); }
  uint64_t Hits() { return Count(Ticker::kValueCacheHits); }
  // No transfer for a read succeeds any more.
  void CutOff() { options_.fault_injector->SetProbability(FaultKind::kFail, 1); }

  static constexpr const char* kName = "value-cache";
  Options options_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
};

// Fails if what has been read goes over the network again, by whatever call.
TEST_P(ValueCacheDbTest, AnswersWithoutTheMemoryNode) {
  Open();
  Fill(1);
  ExpectAll(1);
  EXPECT_EQ(Count(Ticker::kValueCacheInserts), kCachedKeys);
  const uint64_t before = Hits();
  CutOff();
  ExpectAll(1);
  ReadOptions verified;
  verified.verify_checksums = true;
  ExpectAll(1, verified);
  PinnableSlice pinned;
  ASSERT_OK(db_->Get(ReadOptions(), NumberedKey(7), &pinned));
  EXPECT_EQ(pinned, Slice(CachedValue(7, 1)));
  const std::string first = NumberedKey(1);
  const std::string second = NumberedKey(1999);
  std::vector<std::string> values;
  for (const Status& status : db_->MultiGet(ReadOptions(), {first, second, "none"}, &values)) {
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
  }
  EXPECT_EQ(values[0], CachedValue(1, 1));
  EXPECT_EQ(values[1], CachedValue(1999, 1));
  const std::unique_ptr<GetPipeline> pipeline = db_->NewGetPipeline(ReadOptions(), 2);
  ASSERT_OK(pipeline->Submit(first, 1));
  ASSERT_OK(pipeline->Submit(second, 2));
  GetPipeline::Answer answer;
  for (const uint64_t number : {1, 1999}) {
    ASSERT_TRUE(pipeline->Next(&answer));
    ASSERT_OK(answer.status);
    EXPECT_EQ(answer.value, CachedValue(number, 1));
  }
  EXPECT_GE(Hits(), before + 2 * kCachedKeys + 5);
  EXPECT_THAT(db_->GetStatistics()->ToString(), HasSubstr("dlsm.value.cache.hits"));
}

// Fails if anything that was there before a write, a deletion or a merge is found after it.
TEST_P(ValueCacheDbTest, IsNeverOutOfDate) {
  Open();
  Fill(1);
  ExpectAll(1);
  const Snapshot* const snapshot = db_->GetSnapshot();
  Fill(2);
  ExpectAll(2);
  for (uint64_t i = 0; i < kCachedKeys; i += 2)
    ASSERT_OK(db_->Delete(WriteOptions(), NumberedKey(i)));
  ASSERT_OK(db_->Flush(FlushOptions()));
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < kCachedKeys; ++i) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), i % 2 == 0 ? "(none)" : CachedValue(i, 2));
    }
    ReadOptions then;
    then.snapshot = snapshot;
    ExpectAll(1, then);
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  }
  db_->ReleaseSnapshot(snapshot);
  EXPECT_GT(Hits(), 0u);
  ASSERT_OK(db_->Close());
  Open();
  for (uint64_t i = 0; i < kCachedKeys; ++i) {
    ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), i % 2 == 0 ? "(none)" : CachedValue(i, 2));
  }
}

TEST_P(ValueCacheDbTest, IsFilledByPointReadsThatMay) {
  Open();
  Fill(1);
  ReadOptions read;
  read.fill_cache = false;
  ExpectAll(1, read);
  std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
  }
  ASSERT_OK(iterator->status());
  iterator.reset();
  EXPECT_EQ(Count(Ticker::kValueCacheInserts), 0u);
  EXPECT_EQ(FieldOfProperty(db_.get(), "dlsm.memory", "value-cache-records"), 0u);
  const std::string key = NumberedKey(3);
  std::vector<std::string> values;
  ASSERT_OK(db_->MultiGet(ReadOptions(), {key}, &values).front());
  EXPECT_EQ(Count(Ticker::kValueCacheInserts), 1u);
  const std::unique_ptr<GetPipeline> pipeline = db_->NewGetPipeline(ReadOptions(), 2);
  ASSERT_OK(pipeline->Submit(NumberedKey(4), 1));
  GetPipeline::Answer answer;
  ASSERT_TRUE(pipeline->Next(&answer));
  EXPECT_EQ(Count(Ticker::kValueCacheInserts), 2u);
  EXPECT_GT(FieldOfProperty(db_.get(), "dlsm.memory", "value-cache-records"), 0u);
}

TEST_P(ValueCacheDbTest, IsOffByDefault) {
  EXPECT_EQ(Options().value_cache_size, 0u);
  options_.value_cache_size = 0;
  Open();
  Fill(1);
  ExpectAll(1);
  ExpectAll(1);
  EXPECT_EQ(Hits() + Count(Ticker::kValueCacheMisses), 0u);
  std::string memory;
  ASSERT_TRUE(db_->GetProperty("dlsm.memory", &memory));
  EXPECT_THAT(memory, Not(HasSubstr("value-cache")));
}

// Fails if the other cache's counters stand still; the value cache has none of its tables' records.
TEST_P(ValueCacheDbTest, LeavesBlocksToTheBlockCache) {
  options_.table_format = TableFormat::kBlockBased;
  Open();
  Fill(1);
  const std::string key = NumberedKey(3);
  ASSERT_EQ(GetOr(db_.get(), key), CachedValue(3, 1));
  EXPECT_EQ(Count(Ticker::kBlockCacheMisses), 1u);
  ASSERT_EQ(GetOr(db_.get(), key), CachedValue(3, 1));
  std::vector<std::string> values;
  ASSERT_OK(db_->MultiGet(ReadOptions(), {key}, &values).front());
  EXPECT_EQ(Count(Ticker::kBlockCacheMisses), 1u);
  EXPECT_EQ(Count(Ticker::kBlockCacheHits), 2u);
  EXPECT_EQ(Hits() + Count(Ticker::kValueCacheMisses), 0u);
}

// Fails if bytes that were damaged on their way are kept, for a reader who does not look at
// checksums brings them.
TEST_P(ValueCacheDbTest, KeepsNothingDamaged) {
  Open();
  Fill(1);
  options_.fault_injector->SetProbability(FaultKind::kCorrupt, 1);
  for (uint64_t i = 0; i < kCachedKeys; ++i) (void)GetOr(db_.get(), NumberedKey(i));
  ASSERT_GT(options_.fault_injector->CountFaults(), kCachedKeys / 2);
  options_.fault_injector->Clear();
  ExpectAll(1);
}

// Fails if pinned bytes are the cache's own, which others overwrite.
TEST_P(ValueCacheDbTest, PinnedBytesStayWhileOthersComeAndGo) {
  options_.value_cache_size = ValueCache::kBytesMin;
  Open();
  Fill(1);
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    readers.emplace_back([this, thread, &wrong] {
      Random random(thread);
      struct Held {
        uint64_t number = 0;
        std::unique_ptr<PinnableSlice> value;
      };
      std::vector<Held> held(16);
      for (int step = 0; step < 4000; ++step) {
        Held& next = held[random.Uniform(held.size())];
        if (next.value != nullptr && !(*next.value == Slice(CachedValue(next.number, 1)))) {
          wrong.fetch_add(1);
        }
        next.number = random.Skewed(10);
        next.value = std::make_unique<PinnableSlice>();
        if (!db_->Get(ReadOptions(), NumberedKey(next.number), next.value.get()).ok()) {
          wrong.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(Hits(), 0u);
  EXPECT_GT(Count(Ticker::kValueCacheEvictions), 0u);
}

// Fails if records are lost with the index of their table, or if the cache is not part of what the
// handle may use.
TEST_P(ValueCacheDbTest, IsPartOfTheMemoryBudget) {
  constexpr uint64_t kAllKeys = 60'000;
  const uint64_t memtables =
      options_.write_buffer_size * static_cast<uint64_t>(options_.max_write_buffer_number);
  options_.memory_budget = memtables + (uint64_t{64} << 10);
  std::unique_ptr<DB> refused;
  const Status status = DB::Open(options_, kName, &refused);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("value_cache_size"));
  options_.memory_budget += options_.value_cache_size;
  Open();
  for (uint64_t i = 0; i < kAllKeys; ++i) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), CachedValue(i, 1)));
  }
  ASSERT_OK(db_->Flush(FlushOptions()));
  ASSERT_OK(db_->WaitForBackgroundWork());
  const uint64_t max = FieldOfProperty(db_.get(), "dlsm.memory", "indexes-and-filters-max");
  EXPECT_LE(max, uint64_t{64} << 10);
  EXPECT_LE(FieldOfProperty(db_.get(), "dlsm.memory", "value-cache"), options_.value_cache_size);
  Random random(1);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto waiting = [&] {
    return Count(Ticker::kMetadataLoads) == 0 && std::chrono::steady_clock::now() < until;
  };
  for (int i = 0; i < 40'000 || waiting(); ++i) {
    const uint64_t number = random.OneIn(2) ? random.Uniform(100) : random.Uniform(kAllKeys);
    ASSERT_EQ(GetOr(db_.get(), NumberedKey(number)), CachedValue(number, 1));
  }
  // The hundred keys that are half of all reads: fetched once, whatever came of their tables.
  EXPECT_GT(Hits(), 15'000u);
  EXPECT_GT(Count(Ticker::kMetadataLoads), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, ValueCacheDbTest, testing::Values("", "tcp"), [](const auto& each) {
  return std::string(each.param).empty() ? "embedded" : each.param;
});

// Fails if two tables share what is cached, of which one lies where the other one was.
TEST(CachedRecordsTest, AreOfOneTable) {
  const auto cache = std::make_shared<ValueCache>(ValueCache::kBytesMin);
  RemoteSpan span;
  span.offset = 4096;
  span.bytes = 100;
  const std::string bytes(span.bytes, 'r');
  Slice found;
  {
    const CachedRecords before(cache);
    EXPECT_TRUE(before.Insert(span, bytes, /*verified=*/true).inserted);
    EXPECT_TRUE(before.Lookup(span, &found));
    EXPECT_EQ(found, Slice(bytes));
  }
  const CachedRecords after(cache);
  EXPECT_FALSE(after.Lookup(span, &found));
  EXPECT_FALSE(after.Insert(span, bytes, /*verified=*/false).inserted) << "it is no record";
}

TEST(ValueCacheOptionsTest, RefusesSizesThatHoldNothingOrCannotBe) {
  Options options = TinyOptions();
  for (const uint64_t bytes : {uint64_t{1000}, (uint64_t{16} << 40) + 1, ~uint64_t{0}}) {
    options.value_cache_size = bytes;
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, "no-size", &db);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("value_cache_size"));
  }
}

}  // namespace
}  // namespace dlsm
