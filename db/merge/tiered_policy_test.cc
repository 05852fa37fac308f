#include <gtest/gtest.h>

#include "db/test/policy_simulation_testing.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

TieredPolicyConfig SmallTieredConfig() {
  TieredPolicyConfig config;
  config.level0_trigger = 2;
  config.runs_max = 3;
  return config;
}

// Fails if a lookup finds an old version, a deleted key, or none.
TEST(TieredPolicyTest, EveryKeyReadsAsItShouldAfterEveryStep) {
  for (uint64_t seed = 1; seed <= Rounds(60); ++seed) {
    PolicySimulation::Config config;
    config.seed = seed;
    config.level_count = 2 + seed % 4;
    config.sequential = seed % 7 == 0;
    config.short_of_room = seed % 5 == 0;
    config.records_per_table_max = seed % 2 == 0 ? 12 : 1 << 30;
    PolicySimulation simulation(config, NewTieredPolicy(SmallTieredConfig()));
    ASSERT_TRUE(simulation.Run(80)) << "seed " << seed;
    ASSERT_TRUE(simulation.CompactAll()) << "seed " << seed;
  }
}

// Fails if a level keeps as many runs as it may have.
TEST(TieredPolicyTest, NoLevelStaysFull) {
  PolicySimulation::Config config;
  config.records_per_table_max = 1 << 30;
  PolicySimulation simulation(config, NewTieredPolicy(SmallTieredConfig()));
  ASSERT_TRUE(simulation.Run(100));
  EXPECT_LT(simulation.version().levels()[0].table_count(), 2u);
  for (size_t level = 1; level < 4; ++level) {
    EXPECT_LT(simulation.version().levels()[level].table_count(), 3u) << level;
  }
}

// Fails if a manual compaction leaves more than one run, or deletions.
TEST(TieredPolicyTest, CompactionLeavesOneRun) {
  PolicySimulation::Config config;
  config.records_per_table_max = 1 << 30;
  PolicySimulation simulation(config, NewTieredPolicy(SmallTieredConfig()));
  ASSERT_TRUE(simulation.Run(57));
  ASSERT_TRUE(simulation.CompactAll());
  const std::vector<TableRef> tables = TablesFrom(simulation.version(), 0);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0]->meta().deletions, 0u);
}

}  // namespace
}  // namespace dlsm
