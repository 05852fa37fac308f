// ReadOptions::read_tier: reads that make no round trip, and say so where they would need one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/cache.h"
#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "db/test/test_database_testing.h"
#include "db/test/wire_counts_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr char kTierName[] = "tiers";
constexpr uint64_t kTierKeys = 500;

ReadOptions Local() {
  ReadOptions options;
  options.read_tier = kBlockCacheTier;
  return options;
}

// Keys below kTierKeys are in tables, behind a network; no cache has any of them yet.
class ReadTierTest : public testing::Test {
 protected:
  void SetUp() override {
    options_ = node_.With(TinyOptions(), "tcp");
    options_.value_cache_size = uint64_t{1} << 20;
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kTierName); }

  void Fill() {
    db_ = OpenOrDie(options_, kTierName);
    for (uint64_t i = 0; i < kTierKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 50)));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(db_->WaitForBackgroundWork());
    ASSERT_EQ(GetOr(db_.get(), NumberedKey(kTierKeys - 1)), NumberedValue(kTierKeys - 1, 50));
    counts_ = ReadCounts(db_.get());
  }
  // Nothing was asked of the memory node since then.
  void ExpectNoTransfer() {
    const WireCounts since = ReadCounts(db_.get()) - counts_;
    EXPECT_EQ(since.round_trips, 0u);
    EXPECT_EQ(since.work_requests, 0u);
    EXPECT_EQ(since.read_bytes, 0u);
  }
  Status GetLocally(uint64_t key, std::string* value) {
    return db_->Get(Local(), NumberedKey(key), value);
  }

  TestNode node_{"tcp"};
  Options options_;
  std::unique_ptr<DB> db_;
  WireCounts counts_;
};

// Fails if a get that may not asks the memory node, or if one does not say what it knows.
TEST_F(ReadTierTest, AGetAnswersWhatIsHere) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  std::string value;
  const Status unknown = GetLocally(1, &value);
  EXPECT_TRUE(unknown.IsIncomplete()) << unknown.ToString();
  EXPECT_THAT(unknown.ToString(), HasSubstr("kReadAllTier"));
  // Filters deny what is not there: a few keys they may not.
  int denied = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const Status status = db_->Get(Local(), NumberedKey(i) + "absent", &value);
    denied += status.IsNotFound() ? 1 : 0;
    EXPECT_TRUE(status.IsNotFound() || status.IsIncomplete()) << status.ToString();
  }
  EXPECT_GT(denied, 90);
  ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(2), "in the memtable"));
  ASSERT_OK(db_->Delete(WriteOptions(), NumberedKey(3)));
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(2), Local()), "in the memtable");
  EXPECT_TRUE(GetLocally(3, &value).IsNotFound());
  ExpectNoTransfer();
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(1)), NumberedValue(1, 50));
  counts_ = ReadCounts(db_.get());
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(1), Local()), NumberedValue(1, 50)) << "it is cached now";
  ExpectNoTransfer();
}

// Fails if one key that is not here takes the others' answers away, or is asked for.
TEST_F(ReadTierTest, ManyKeysAndPipelines) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(0)), NumberedValue(0, 50));
  ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(1), "in the memtable"));
  counts_ = ReadCounts(db_.get());
  const std::vector<std::string> names = {NumberedKey(0), NumberedKey(1), NumberedKey(2),
                                          NumberedKey(3)};
  const std::vector<Slice> keys(names.begin(), names.end());
  std::vector<std::string> values;
  const std::vector<Status> statuses = db_->MultiGet(Local(), keys, &values);
  EXPECT_OK(statuses[0]);
  EXPECT_EQ(values[0], NumberedValue(0, 50));
  EXPECT_OK(statuses[1]);
  EXPECT_EQ(values[1], "in the memtable");
  EXPECT_TRUE(statuses[2].IsIncomplete()) << statuses[2].ToString();
  EXPECT_TRUE(statuses[3].IsIncomplete()) << statuses[3].ToString();
  const std::unique_ptr<GetPipeline> pipeline = db_->NewGetPipeline(Local(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_OK(pipeline->Submit(keys[i], i));
  GetPipeline::Answer answer;
  for (size_t i = 0; pipeline->Next(&answer); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(answer.tag, i);
    EXPECT_EQ(answer.status.code(), statuses[i].code()) << answer.status.ToString();
    EXPECT_EQ(answer.value, values[i]);
  }
  ExpectNoTransfer();
}

// Fails if an iterator that may not reads from the memory node, shows less than the blocks that are
// cached, or is not Incomplete where they end.
TEST_F(ReadTierTest, IteratorsGoAsFarAsTheBlockCache) {
  options_.table_format = TableFormat::kBlockBased;
  options_.block_size = 1024;
  const std::unique_ptr<Cache> cache(NewLRUCache(size_t{1} << 20));
  options_.block_cache = cache.get();
  ASSERT_NO_FATAL_FAILURE(Fill());
  const auto steps = [this](const ReadOptions& options, uint64_t most, Status* status) {
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(options));
    uint64_t count = 0;
    for (iterator->SeekToFirst(); iterator->Valid() && count < most; iterator->Next()) ++count;
    *status = iterator->status();
    return count;
  };
  Status status;
  EXPECT_EQ(steps(Local(), kTierKeys, &status), 0u);
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  ExpectNoTransfer();
  EXPECT_EQ(steps(ReadOptions(), 100, &status), 100u);
  EXPECT_OK(status);
  counts_ = ReadCounts(db_.get());
  const uint64_t here = steps(Local(), kTierKeys, &status);
  EXPECT_GE(here, 100u);
  EXPECT_LT(here, kTierKeys);
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  ExpectNoTransfer();
  EXPECT_EQ(steps(ReadOptions(), kTierKeys, &status), kTierKeys);
  EXPECT_EQ(steps(Local(), kTierKeys, &status), kTierKeys) << "all of it is cached now";
  EXPECT_OK(status);
  db_->Close().PermitUncheckedError();  // Before the cache goes.
  db_.reset();
  options_.block_cache = nullptr;
  EXPECT_OK(DestroyDB(kTierName, options_));
}

// Fails if a thread that has not read yet takes memory that is mapped for another machine's.
TEST(ReadTierInPlaceTest, MappedMemoryIsHere) {
  const Options options = TinyOptions();
  std::unique_ptr<DB> db = OpenOrDie(options, kTierName);
  ASSERT_OK(db->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(db->Flush(FlushOptions()));
  std::thread([&db] {
    EXPECT_EQ(GetOr(db.get(), "key", Local()), "value");
    const std::unique_ptr<Iterator> iterator(db->NewIterator(Local()));
    iterator->SeekToFirst();
    EXPECT_TRUE(iterator->Valid()) << iterator->status().ToString();
  }).join();
  CloseAndDestroy(&db, options, kTierName);
}

}  // namespace
}  // namespace dlsm
