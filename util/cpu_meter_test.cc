#include "util/cpu_meter.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if a field is taken for another, or the guests' time is counted twice.
TEST(CpuMeterTest, ReadsTheLineOfAllProcessors) {
  const auto ticks = CpuMeter::Parse("cpu  10 20 30 400 50 6 7 8 1000 1000\ncpu0 1 1 1 1\n");
  ASSERT_TRUE(ticks.has_value());
  EXPECT_EQ(ticks->idle, 450u);
  EXPECT_EQ(ticks->all, 531u);
  EXPECT_EQ(CpuMeter::Parse("cpu 1 2 3 4")->all, 10u) << "an old kernel's";
}

TEST(CpuMeterTest, KnowsWhatItCannotRead) {
  for (const char* text : {"", "cpu", "cpu 1 2 3", "intr 1 2 3 4 5", "cpu a b c d"}) {
    EXPECT_FALSE(CpuMeter::Parse(text).has_value()) << text;
  }
}

TEST(CpuMeterTest, TellsTheShareBetweenTwoReadings) {
  EXPECT_DOUBLE_EQ(CpuMeter::IdleShare({100, 1000}, {150, 1200}).value(), 0.25);
  EXPECT_DOUBLE_EQ(CpuMeter::IdleShare({100, 1000}, {90, 1200}).value(), 0);
  EXPECT_FALSE(CpuMeter::IdleShare({100, 1000}, {100, 1000}).has_value());
}

TEST(CpuMeterTest, ThisMachineTells) {
  CpuMeter meter;
  EXPECT_FALSE(meter.IdleShare().has_value()) << "nothing lies before the first";
  std::optional<double> share;
  while (!share.has_value()) share = meter.IdleShare();
  EXPECT_GE(*share, 0);
  EXPECT_LE(*share, 1);
}

}  // namespace
}  // namespace dlsm
