#include "dLSM/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <string>

#include "dLSM/db.h"
#include "dLSM/statistics.h"
#include "db/metrics/db_metrics.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    options.embedded_memory_bytes = uint64_t{64} << 20;
    options.write_buffer_size = 1 << 20;
    ASSERT_OK(DB::Open(options, "metrics", &db_));
  }
  std::string Text() const {
    return prometheus::TextSerializer().Serialize(DbMetrics(db_.get()).Collect());
  }

  std::unique_ptr<DB> db_;
};

// Fails if counters, properties or latencies are not told, or latencies before they are asked for.
TEST_F(MetricsTest, TellsOfAllSources) {
  ASSERT_OK(db_->Put({}, "key", "value"));
  EXPECT_THAT(Text(), Not(HasSubstr("dlsm_db_call_seconds")));
  std::unique_ptr<Metrics> metrics;
  ASSERT_OK(StartMetrics(db_.get(), {}, &metrics));
  EXPECT_GT(metrics->port(), 0);
  std::string value;
  ASSERT_OK(db_->Get({}, "key", &value));
  ASSERT_OK(db_->Flush({}));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_keys_written_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_flushes_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_entries 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_call_seconds_count{call=\"get\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_call_seconds_count{call=\"flush\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_call_seconds_count{call=\"multi_get\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_stalls_total{reason=\"level0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_stall_seconds_total{reason=\"log\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_memory_part_bytes{part=\"memtables\"} "));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_wire_round_trips_total{purpose=\"read\"} "));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_embedded_capacity_bytes "));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_background_failing 0\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_db_level_tables{level=\"0\"} 1\n"));
}

// Fails if a handle that was closed ends the process, or still tells of what it has no more.
TEST_F(MetricsTest, CountersOutliveClose) {
  ASSERT_OK(db_->Put({}, "key", "value"));
  ASSERT_OK(db_->Close());
  EXPECT_THAT(Text(), HasSubstr("\ndlsm_db_keys_written_total 1\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("dlsm_db_entries")));
}

// Fails if a place where metrics cannot be served is not told, with the place.
TEST_F(MetricsTest, WrongPlacesAreTold) {
  std::unique_ptr<Metrics> metrics;
  EXPECT_TRUE(StartMetrics(nullptr, {}, &metrics).IsInvalidArgument());
  EXPECT_TRUE(StartMetrics(db_.get(), {}, nullptr).IsInvalidArgument());
  MetricsOptions options;
  options.port = 65536;
  EXPECT_TRUE(StartMetrics(db_.get(), options, &metrics).IsInvalidArgument());
  options.port = 0;
  options.bind = "192.0.2.1";  // Nobody's: RFC 5737.
  const Status elsewhere = StartMetrics(db_.get(), options, &metrics);
  EXPECT_TRUE(elsewhere.IsIOError());
  EXPECT_THAT(elsewhere.ToString(), HasSubstr("192.0.2.1:0"));
  EXPECT_EQ(metrics, nullptr);
  EXPECT_EQ(db_->GetStatistics()->level(), StatsLevel::kCounters);
  options.bind = "127.0.0.1";
  ASSERT_OK(StartMetrics(db_.get(), options, &metrics));
  std::unique_ptr<Metrics> second;
  options.port = metrics->port();
  const Status taken = StartMetrics(db_.get(), options, &second);
  EXPECT_TRUE(taken.IsIOError());
  EXPECT_THAT(taken.ToString(), HasSubstr("is the port in use"));
}

}  // namespace
}  // namespace dlsm
