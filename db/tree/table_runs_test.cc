#include "db/tree/table_runs.h"

#include <gtest/gtest.h>

#include "dLSM/comparator.h"
#include "db/test/fake_table_testing.h"

namespace dlsm {
namespace {

// Fails if a run that nobody has merged passes for merged though two tables have the same key.
TEST(TableRunsTest, VersionsOfAKeyMaySpanTables) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const auto newer = FakeTable{2, "k", "k", 9, 9};
  const auto apart = MakeFakeTables({newer, {1, "l", "m"}});
  EXPECT_FALSE(VersionsSpanTables(comparator, apart));
  const auto shared = MakeFakeTables({newer, {1, "k", "m"}});
  EXPECT_EQ(CountRuns(comparator, shared), 1u);
  EXPECT_TRUE(VersionsSpanTables(comparator, shared));
  EXPECT_FALSE(VersionsSpanTables(comparator, {}));
}

}  // namespace
}  // namespace dlsm
