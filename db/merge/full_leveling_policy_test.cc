#include <gtest/gtest.h>

#include "db/test/policy_simulation_testing.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

LeveledPolicyConfig SmallFullLevelingConfig() {
  LeveledPolicyConfig config;
  config.level0_trigger = 2;
  config.base_bytes = 300;
  config.multiplier = 3;
  return config;
}

PolicySimulation::Config ByKey(uint64_t seed) {
  PolicySimulation::Config config;
  config.seed = seed;
  config.deeper_order = Guard::Order::kByKey;
  config.key_count = 1000;
  return config;
}

// Fails if a lookup finds an old version, a deleted key, or none.
TEST(FullLevelingPolicyTest, EveryKeyReadsAsItShouldAfterEveryStep) {
  for (uint64_t seed = 1; seed <= Rounds(60); ++seed) {
    PolicySimulation::Config config = ByKey(seed);
    config.level_count = 2 + seed % 4;
    config.sequential = seed % 7 == 0;
    PolicySimulation simulation(config, NewFullLevelingPolicy(SmallFullLevelingConfig()));
    ASSERT_TRUE(simulation.Run(80)) << "seed " << seed;
    ASSERT_TRUE(simulation.CompactAll()) << "seed " << seed;
  }
}

// Fails if a level that is full is not merged down as a whole.
TEST(FullLevelingPolicyTest, NoLevelStaysFull) {
  PolicySimulation simulation(ByKey(1), NewFullLevelingPolicy(SmallFullLevelingConfig()));
  ASSERT_TRUE(simulation.Run(100));
  EXPECT_LT(simulation.version().levels()[1].bytes(), 300u);
  EXPECT_LT(simulation.version().levels()[2].bytes(), 900u);
  EXPECT_GT(simulation.version().levels()[3].bytes(), 900u);
}

}  // namespace
}  // namespace dlsm
