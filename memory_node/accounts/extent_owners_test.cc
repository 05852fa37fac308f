#include "memory_node/accounts/extent_owners.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dlsm {
namespace {

constexpr RegionId kRegion{7};
constexpr uint64_t kExtentUnit = 64;

class ExtentOwnersTest : public testing::Test {
 protected:
  ReachPointer ReachOf(AccessPatterns patterns) const {
    return owners_.ReachOf(
        std::make_shared<const AccessRights>("alice", "the-secret-of-alice", std::move(patterns)));
  }
  // Of so many units from `begin` on.
  static bool Reaches(const ReachPointer& reach, uint64_t begin, uint64_t units, bool writes) {
    const ReachedRange range{kRegion, begin * kExtentUnit, units * kExtentUnit};
    bool moved = false;
    const bool may = reach->During(&range, 1, writes, [&moved] { moved = true; });
    EXPECT_EQ(may, moved);
    return may;
  }
  void Add(uint64_t unit, const std::string& database) {
    owners_.Add(unit * kExtentUnit, kExtentUnit, database);
  }
  void Remove(uint64_t begin, uint64_t units) {
    owners_.Remove(begin * kExtentUnit, units * kExtentUnit);
  }

  ExtentOwners owners_{kRegion};
};

// Fails if grants that touch, given out in whatever order, are not one to a transfer of their
// database; or if it still reaches what was taken out of their middle, or cannot reach what has
// come back.
TEST_F(ExtentOwnersTest, GrantsThatTouchAreOne) {
  const ReachPointer reach = ReachOf({{"a"}, {"b"}});
  for (const uint64_t unit : std::vector<uint64_t>{3, 1, 5, 4, 2, 6}) Add(unit, "a");
  EXPECT_TRUE(Reaches(reach, 1, 6, /*writes=*/true));
  EXPECT_TRUE(Reaches(reach, 6, 0, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 0, 2, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 6, 2, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 7, 0, /*writes=*/true)) << "nobody's";
  Remove(3, 2);
  EXPECT_TRUE(Reaches(reach, 1, 2, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 2, 2, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 3, 0, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 4, 2, /*writes=*/true));
  EXPECT_TRUE(Reaches(reach, 5, 2, /*writes=*/true));
  Add(3, "b");
  Add(4, "a");
  EXPECT_FALSE(Reaches(reach, 3, 1, /*writes=*/true));
  EXPECT_TRUE(Reaches(reach, 3, 1, /*writes=*/false));
  EXPECT_TRUE(Reaches(reach, 4, 3, /*writes=*/true));
}

// Who has cut memory into grants to two databases in turns could have each of its transfers look at
// all of them, while all others wait. Fails if a transfer goes beyond one database's memory, though
// its client may reach the other's as well.
TEST_F(ExtentOwnersTest, ATransferLiesWithinOneDatabasesMemory) {
  const ReachPointer reach = ReachOf({{"*"}, {}});
  for (uint64_t unit = 0; unit < 100; ++unit) Add(unit, unit % 2 == 0 ? "a" : "b");
  EXPECT_TRUE(Reaches(reach, 10, 1, /*writes=*/true));
  EXPECT_TRUE(Reaches(reach, 11, 1, /*writes=*/true));
  EXPECT_FALSE(Reaches(reach, 10, 2, /*writes=*/false));
  EXPECT_FALSE(Reaches(reach, 0, 100, /*writes=*/false));
}

}  // namespace
}  // namespace dlsm
