#include "benchmarks/cost_meter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "benchmarks/map_engine_testing.h"
#include "benchmarks/report.h"

namespace dlsm::bench {
namespace {

class RemoteMapEngine final : public MapEngine {
 public:
  EngineCounters Counters() override {
    EngineCounters counters;
    counters.remote_cpu_micros = remote_cpu_micros;
    return counters;
  }
  std::optional<uint64_t> remote_cpu_micros;
};

// What a memory node has spent between two readings. Fails if one that did not answer, or that has
// begun anew, makes a figure: a wrong one, or one below zero that passes for a huge one.
TEST(CostMeterTest, KnowsNoMoreThanMemoryNodesTell) {
  const auto spent = [](std::optional<uint64_t> before, std::optional<uint64_t> after) {
    RemoteMapEngine engine;
    engine.remote_cpu_micros = before;
    CostMeter meter(engine);
    engine.remote_cpu_micros = after;
    BenchResult result;
    meter.Stop(&result);
    EXPECT_EQ(result.CpuSeconds().has_value(), result.memory_node_cpu_seconds.has_value());
    return result.memory_node_cpu_seconds;
  };
  EXPECT_EQ(spent(500'000, 2'500'000), 2.0);
  EXPECT_EQ(spent(7, 7), 0.0);
  EXPECT_EQ(spent(std::nullopt, 2'500'000), std::nullopt);
  EXPECT_EQ(spent(500'000, std::nullopt), std::nullopt);
  EXPECT_EQ(spent(2'500'000, 500'000), std::nullopt);
}

}  // namespace
}  // namespace dlsm::bench
