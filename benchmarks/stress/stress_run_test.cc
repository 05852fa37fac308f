// How long a run waits, and what the processes of one database draw.
#include "benchmarks/stress/stress_run.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "util/status_testing.h"

namespace dlsm::stress {
namespace {

// What a process of one thread does in a round.
std::array<uint64_t, kOperationCount> OperationsOf(uint64_t seed, uint64_t processes_before) {
  constexpr uint64_t kKeys = 64;
  const KeySpace space(seed, kKeys, 100);
  std::vector<char> memory(ExpectedState::BytesFor(kKeys));
  ExpectedState state(memory.data(), kKeys);
  RunConfig config;
  config.seed = seed;
  config.threads = 1;
  config.operations_per_round = 300;
  config.rounds = 1;
  config.processes_before = processes_before;
  StressRun run(config, &space, &state);
  RunResult result;
  EXPECT_OK(run.Run(&result));
  EXPECT_OK(run.Destroy());
  EXPECT_EQ(result.rounds, 1u);
  return result.tally.operations;
}

// Fails if each process that goes on with a database whose former user was killed does again what
// that one did.
TEST(StressRunTest, ProcessesOfOneDatabaseDrawDifferently) {
  const auto first = OperationsOf(5, 0);
  EXPECT_EQ(OperationsOf(5, 0), first) << "a seed repeats a run";
  const auto second = OperationsOf(5, 1);
  EXPECT_NE(second, first);
  EXPECT_NE(OperationsOf(5, 2), second);
}

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
