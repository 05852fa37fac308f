#include <gtest/gtest.h>

#include <vector>

#include "db/test/policy_simulation_testing.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

// Level 0 alone; all tables overlap. Sizes are newest first; numbers count down from the newest.
Version VersionOf(const std::vector<uint64_t>& sizes) {
  const InternalKeyComparator comparator(BytewiseComparator());
  std::vector<TableRef> tables;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint64_t number = sizes.size() - i;
    tables.push_back(MakeFakeTable({number, "a", "z", number, number, sizes[i]}));
  }
  std::vector<Level> levels(2);
  levels[0] = levels[0].With(comparator, {}, tables);
  return Version(comparator, std::move(levels));
}

Numbers Picked(const std::vector<uint64_t>& sizes, const TablesInMerge& busy = {}) {
  const auto pick = NewSizeTieredPolicy(SizeTieredPolicyConfig())->Pick(VersionOf(sizes), busy);
  return pick.has_value() ? NumbersOf(pick->inputs) : Numbers{};
}

// Fails if the runs that HBase would merge are not the ones that are.
TEST(SizeTieredPolicyTest, MergesNeighboursOfLikeSize) {
  EXPECT_EQ(Picked({10, 10}), Numbers{}) << "too few";
  EXPECT_EQ(Picked({10, 10, 10}), (Numbers{3, 2, 1}));
  EXPECT_EQ(Picked({10, 10, 10, 100}), (Numbers{4, 3, 2})) << "the oldest is too large";
  EXPECT_EQ(Picked({10, 10, 10, 30, 100}), (Numbers{5, 4, 3, 2}));
  EXPECT_EQ(Picked({12, 12, 100}), Numbers{});
  EXPECT_EQ(Picked({10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10}),
            (Numbers{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}))
      << "no more than ten, the oldest first";
}

// Fails if a merge takes older runs than one that is under way, or a run of that.
TEST(SizeTieredPolicyTest, StaysInFrontOfMergesUnderWay) {
  EXPECT_EQ(Picked({10, 10, 10, 30, 30, 30}, {2}), (Numbers{6, 5, 4, 3}));
  EXPECT_EQ(Picked({10, 10, 10, 30, 30, 30}, {5}), Numbers{});
}

// Fails if a lookup finds an old version, a deleted key, or none.
TEST(SizeTieredPolicyTest, EveryKeyReadsAsItShouldAfterEveryStep) {
  for (uint64_t seed = 1; seed <= Rounds(60); ++seed) {
    PolicySimulation::Config config;
    config.seed = seed;
    config.level_count = 2;
    config.sequential = seed % 7 == 0;
    config.short_of_room = seed % 5 == 0;
    config.records_per_table_max = seed % 2 == 0 ? 12 : 1 << 30;
    PolicySimulation simulation(config, NewSizeTieredPolicy(SizeTieredPolicyConfig()));
    ASSERT_TRUE(simulation.Run(80)) << "seed " << seed;
    ASSERT_TRUE(simulation.CompactAll()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dlsm
