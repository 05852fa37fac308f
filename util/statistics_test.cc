#include "dLSM/statistics.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace dlsm {
namespace {

// Fails if a ticker was added without a name, or two share one.
TEST(StatisticsTest, EveryTickerHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Ticker::kTickerCount); ++i) {
    const std::string name = TickerName(static_cast<Ticker>(i));
    EXPECT_EQ(name.find("dlsm."), 0u) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_STREQ(TickerName(Ticker::kKeysWritten), "dlsm.keys.written");
  EXPECT_STREQ(TickerName(Ticker::kBlockCacheHits), "dlsm.block.cache.hits");
  EXPECT_STREQ(TickerName(Ticker::kMergeMicros), "dlsm.merge.micros");
  EXPECT_STREQ(TickerName(Ticker::kPublicationBytes), "dlsm.publication.bytes");
  EXPECT_STREQ(TickerName(Ticker::kRetries), "dlsm.retries");
}

// Fails if what a thread adds by its own counts goes to another thread's, or to another counter.
TEST(StatisticsTest, CountsOfThisThreadAreItsOwn) {
  const std::shared_ptr<Statistics> statistics = CreateStatistics();
  const Statistics::Mine mine = statistics->OfThisThread();
  std::thread other([&] {
    const Statistics::Mine its = statistics->OfThisThread();
    for (int n = 0; n < 10000; ++n) its.Add(Ticker::kKeysRead);
  });
  for (int n = 0; n < 10000; ++n) mine.Add(Ticker::kKeysRead);
  other.join();
  mine.Add(Ticker::kBytesRead, 100);
  EXPECT_EQ(statistics->Get(Ticker::kKeysRead), 20000u);
  EXPECT_EQ(statistics->Get(Ticker::kBytesRead), 100u);
  EXPECT_EQ(statistics->Get(Ticker::kSeeks), 0u);
}

// Fails if concurrent additions get lost.
TEST(StatisticsTest, ThreadsAddUp) {
  const std::shared_ptr<Statistics> statistics = CreateStatistics();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10000; ++n) statistics->Add(Ticker::kKeysRead);
      statistics->Add(Ticker::kBytesRead, 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statistics->Get(Ticker::kKeysRead), 80000u);
  EXPECT_EQ(statistics->Get(Ticker::kBytesRead), 800u);
  EXPECT_EQ(statistics->Get(Ticker::kSeeks), 0u);
  const std::string text = statistics->ToString();
  EXPECT_NE(text.find("dlsm.keys.read"), std::string::npos);
  EXPECT_NE(text.find("80000\n"), std::string::npos);
  EXPECT_EQ(text.find("dlsm.seeks"), std::string::npos);
  statistics->Reset();
  EXPECT_EQ(statistics->ToString(), "");
  statistics->Add(Ticker::kKeysRead, 2);
  std::thread([&] { statistics->Add(Ticker::kKeysRead, 3); }).join();
  EXPECT_EQ(statistics->Get(Ticker::kKeysRead), 5u);
}

// Fails if a histogram was added without a name, or two share one.
TEST(StatisticsTest, EveryHistogramHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint32_t i = 0; i < static_cast<uint32_t>(HistogramType::kHistogramCount); ++i) {
    EXPECT_TRUE(names.insert(HistogramName(static_cast<HistogramType>(i))).second);
  }
  EXPECT_STREQ(HistogramName(HistogramType::kGet), "dlsm.get.nanos");
  EXPECT_STREQ(HistogramName(HistogramType::kCompactRange), "dlsm.compact.range.nanos");
  EXPECT_STREQ(HistogramName(HistogramType::kWaitDurable), "dlsm.wait.durable.nanos");
}

// Fails if latencies count before they are asked for, after that is over, or for another call.
TEST(StatisticsTest, LatenciesCountAtTheirLevelOnly) {
  const std::shared_ptr<Statistics> statistics = CreateStatistics();
  EXPECT_EQ(statistics->level(), StatsLevel::kCounters);
  statistics->AddLatency(HistogramType::kGet, 100);
  EXPECT_EQ(statistics->Get(HistogramType::kGet).count, 0u);
  statistics->SetLevel(StatsLevel::kLatencies);
  EXPECT_EQ(statistics->level(), StatsLevel::kLatencies);
  statistics->AddLatency(HistogramType::kGet, 100);
  statistics->AddLatency(HistogramType::kGet, 300);
  statistics->SetLevel(StatsLevel::kCounters);
  statistics->AddLatency(HistogramType::kGet, 500);
  const HistogramData data = statistics->Get(HistogramType::kGet);
  EXPECT_EQ(data.count, 2u);
  EXPECT_EQ(data.sum, 400u);
  EXPECT_EQ(data.at_most[7], 1u);
  EXPECT_EQ(data.at_most[9], 2u);
  EXPECT_EQ(statistics->Get(HistogramType::kPut).count, 0u);
  EXPECT_NE(statistics->ToString().find("dlsm.get.nanos"), std::string::npos);
  EXPECT_EQ(statistics->ToString().find("dlsm.put.nanos"), std::string::npos);
}

// Fails if latencies of concurrent threads get lost, or a reset leaves some.
TEST(StatisticsTest, LatenciesOfThreadsAddUp) {
  const std::shared_ptr<Statistics> statistics = CreateStatistics();
  statistics->SetLevel(StatsLevel::kLatencies);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (uint64_t n = 1; n <= 10000; ++n) statistics->AddLatency(HistogramType::kPut, n);
    });
  }
  uint64_t seen = 0;
  while (seen < 40000) {
    const uint64_t count = statistics->Get(HistogramType::kPut).count;
    EXPECT_GE(count, seen);
    seen = count;
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  const HistogramData data = statistics->Get(HistogramType::kPut);
  EXPECT_EQ(data.count, 80000u);
  EXPECT_EQ(data.sum, 8u * 50005000);
  EXPECT_EQ(data.at_most[10], 8u * 1024);
  statistics->Reset();
  EXPECT_EQ(statistics->Get(HistogramType::kPut).count, 0u);
  EXPECT_EQ(statistics->ToString(), "");
  statistics->AddLatency(HistogramType::kPut, 64);
  EXPECT_EQ(statistics->Get(HistogramType::kPut).count, 1u);
  EXPECT_EQ(statistics->Get(HistogramType::kPut).sum, 64u);
  EXPECT_DOUBLE_EQ(statistics->Get(HistogramType::kPut).max, 64);
}

}  // namespace
}  // namespace dlsm
