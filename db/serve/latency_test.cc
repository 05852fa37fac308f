#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "db/serve/command_latency.h"
#include "db/serve/latency_monitor.h"
#include "db/serve/server_testing.h"

namespace dlsm::serve {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(CommandLatencyTest, CallsAreInTheBucketOfTheirTime) {
  CommandLatency latency;
  latency.Add(3, 0);
  latency.Add(3, 999);
  latency.Add(3, 1000);
  latency.Add(3, 5'000'000);
  latency.Add(3, uint64_t{1} << 60);
  const CommandLatency::Histogram histogram = latency.Of(3);
  EXPECT_EQ(histogram.calls, 5u);
  EXPECT_EQ(histogram.nanos, 5'001'999 + (uint64_t{1} << 60));
  EXPECT_EQ(histogram.buckets[0], 2u) << "less than a microsecond";
  EXPECT_EQ(histogram.buckets[1], 1u);
  EXPECT_EQ(histogram.buckets[13], 1u) << "less than 8192 microseconds";
  EXPECT_EQ(histogram.buckets[CommandLatency::kBuckets - 1], 1u);
  EXPECT_EQ(latency.Of(4).calls, 0u);
  latency.Clear();
  EXPECT_EQ(latency.Of(3).calls, 0u);
}

// Fails if calls of threads that share a stripe are lost.
TEST(CommandLatencyTest, NoCallIsLost) {
  CommandLatency latency;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 12; ++thread) {
    threads.emplace_back([&latency] {
      for (int i = 0; i < 10'000; ++i) latency.Add(0, 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(latency.Of(0).calls, 120'000u);
  EXPECT_EQ(latency.Of(0).nanos, 12'000'000u);
}

TEST(LatencyMonitorTest, TheLongestOfEachSecondIsKept) {
  LatencyMonitor monitor;
  monitor.AddIfSlow("command", 1000, 999'999'999);
  EXPECT_TRUE(monitor.All().empty()) << "nothing is watched";
  monitor.set_threshold(10);
  monitor.AddIfSlow("command", 1000, 9'999);
  EXPECT_TRUE(monitor.All().empty());
  monitor.AddIfSlow("command", 1000, 10'000);
  monitor.AddIfSlow("command", 1999, 30'500);
  monitor.AddIfSlow("command", 1999, 20'000);
  for (int second = 2; second < 300; ++second) monitor.AddIfSlow("command", second * 1000, 12'000);
  const LatencyMonitor::Event event = monitor.All()["command"];
  EXPECT_EQ(event.samples.size(), 160u);
  EXPECT_EQ(event.samples.back().at, 299);
  EXPECT_EQ(event.most_millis, 30);
  EXPECT_FALSE(monitor.Forget("other"));
  EXPECT_TRUE(monitor.Forget("command"));
  EXPECT_EQ(monitor.ForgetAll(), 0u);
}

class LatencyCommandTest : public ServerTest {};

TEST_F(LatencyCommandTest, CommandsHaveHistograms) {
  Start();
  TestClient redis = NewClient();
  redis("set a 1");
  redis("set b 1");
  redis("multi");
  redis("get a");
  redis("exec");
  EXPECT_THAT(redis("latency histogram set"),
              StartsWith("[\"set\", [\"calls\", (2), \"histogram_usec\", [("));
  EXPECT_THAT(redis("latency histogram set get nothing del"),
              HasSubstr("\"get\", [\"calls\", (1)"));
  EXPECT_THAT(redis("latency histogram"), HasSubstr("\"exec\", [\"calls\", (1)"));
  EXPECT_EQ(redis("latency histogram del"), "[]");
  redis("hello 3");
  EXPECT_THAT(redis("latency histogram set"), StartsWith("[\"set\", [\"calls\", (2)"));
  EXPECT_EQ(redis("config resetstat"), "OK");
  EXPECT_THAT(redis("latency histogram"), StartsWith("[\"config\", [\"calls\", (1)"));
}

TEST_F(LatencyCommandTest, WhatTakesLongIsListed) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("config get latency-monitor-threshold"),
            "[\"latency-monitor-threshold\", \"0\"]");
  EXPECT_EQ(redis("latency latest"), "[]");
  EXPECT_THAT(redis("latency doctor"), HasSubstr("Nothing is watched"));
  EXPECT_EQ(redis("config set latency-monitor-threshold 1"), "OK");
  for (int i = 0; i < 100; ++i)
    redis.Send({"HSET", "h", std::to_string(i), std::string(100'000, 'x')});
  for (int i = 0; i < 100; ++i) redis.Receive();
  // Ten megabytes take longer than a millisecond.
  redis("hgetall h");
  EXPECT_THAT(redis("latency latest"), HasSubstr("[\"command\", ("));
  EXPECT_THAT(redis("latency history command"), StartsWith("[[("));
  EXPECT_EQ(redis("latency history nothing"), "[]");
  EXPECT_THAT(redis("latency graph command"), HasSubstr("command - high "));
  EXPECT_THAT(redis("latency graph nothing"), StartsWith("-ERR No samples available for event"));
  EXPECT_THAT(redis("latency doctor"), HasSubstr("command: "));
  EXPECT_EQ(redis("latency reset nothing"), "(0)");
  EXPECT_EQ(redis("latency reset command"), "(1)");
  EXPECT_EQ(redis("latency history command"), "[]");
  EXPECT_THAT(redis("latency help"), HasSubstr("LATENCY <subcommand>"));
  EXPECT_EQ(redis("latency help x"), "-ERR wrong number of arguments for 'latency|help' command");
  EXPECT_THAT(redis("latency foo"), StartsWith("-ERR unknown subcommand 'foo'"));
}

}  // namespace
}  // namespace dlsm::serve
