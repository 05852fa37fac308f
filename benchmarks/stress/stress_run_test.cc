// How long a run waits.
#include "benchmarks/stress/stress_run.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlsm::stress {
namespace {

// db_stress makes leases as long as --operation_timeout_ms, for machines that are overloaded. Fails
// if what a killed reader keeps is waited for no longer than usual then.
TEST(RunConfigTest, LeasesAreWaitedForHoweverLongTheyAre) {
  RunConfig config;
  EXPECT_EQ(config.lease_patience(), std::chrono::minutes(1));
  config.operation_timeout_ms = 300'000;
  EXPECT_GT(config.lease_patience(), 2 * std::chrono::milliseconds(config.operation_timeout_ms));
}

}  // namespace
}  // namespace dlsm::stress
