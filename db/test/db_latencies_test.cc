// Latencies of public calls, by the histogram that each goes to.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/statistics.h"
#include "dLSM/write_batch.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class LatenciesTest : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    options.embedded_memory_bytes = uint64_t{64} << 20;
    options.write_buffer_size = 1 << 20;
    ASSERT_OK(DB::Open(options, "latencies", &db_));
    statistics_ = db_->GetStatistics();
  }
  // Of calls that were measured.
  std::map<std::string, uint64_t> Counts() const {
    std::map<std::string, uint64_t> counts;
    for (uint32_t i = 0; i < static_cast<uint32_t>(HistogramType::kHistogramCount); ++i) {
      const auto type = static_cast<HistogramType>(i);
      const HistogramData data = statistics_->Get(type);
      if (data.count > 0) counts[HistogramName(type)] = data.count;
    }
    return counts;
  }
  // Each public call that is measured, at least once.
  void CallAll() {
    ASSERT_OK(db_->Put({}, "key", "value"));
    ASSERT_OK(db_->Put({}, "other", "value"));
    ASSERT_OK(db_->Delete({}, "other"));
    WriteBatch batch;
    batch.Put("batched", "value");
    ASSERT_OK(db_->Write({}, &batch));
    std::string value;
    PinnableSlice pinned;
    ASSERT_OK(db_->Get({}, "key", &value));
    ASSERT_OK(db_->Get({}, "key", &pinned));
    ASSERT_TRUE(db_->Get({}, "other", &value).IsNotFound());
    std::vector<std::string> values;
    for (const Status& status : db_->MultiGet({}, {"key", "batched"}, &values)) ASSERT_OK(status);
    const std::unique_ptr<Iterator> iterator(db_->NewIterator({}));
    iterator->SeekToFirst();
    iterator->Next();
    iterator->Seek("key");
    iterator->SeekToLast();
    iterator->SeekForPrev("key");
    ASSERT_OK(iterator->status());
    ASSERT_OK(db_->Flush({}));
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    ASSERT_OK(db_->FlushLog(/*sync=*/false));
    ASSERT_OK(db_->WaitDurable(db_->LatestSequence()));
  }

  std::unique_ptr<DB> db_;
  std::shared_ptr<Statistics> statistics_;
};

// Fails if a call is measured though nobody asked for that.
TEST_F(LatenciesTest, AreOffByDefault) {
  CallAll();
  EXPECT_TRUE(Counts().empty());
}

// Fails if a call is not measured, twice, or as another one.
TEST_F(LatenciesTest, EachCallHasItsHistogram) {
  statistics_->SetLevel(StatsLevel::kLatencies);
  CallAll();
  const std::map<std::string, uint64_t> expected = {
      {"dlsm.get.nanos", 3},         {"dlsm.multi.get.nanos", 1},     {"dlsm.put.nanos", 2},
      {"dlsm.delete.nanos", 1},      {"dlsm.write.nanos", 1},         {"dlsm.seek.nanos", 4},
      {"dlsm.flush.nanos", 1},       {"dlsm.compact.range.nanos", 1}, {"dlsm.flush.log.nanos", 1},
      {"dlsm.wait.durable.nanos", 1}};
  EXPECT_EQ(Counts(), expected);
  const HistogramData flush = statistics_->Get(HistogramType::kFlush);
  EXPECT_GT(flush.sum, 1000u);  // It takes longer than a microsecond.
  std::string text;
  ASSERT_TRUE(db_->GetProperty("dlsm.stats", &text));
  EXPECT_NE(text.find("dlsm.flush.nanos"), std::string::npos);
}

}  // namespace
}  // namespace dlsm
