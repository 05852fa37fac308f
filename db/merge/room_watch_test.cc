#include "db/merge/room_watch.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if what the tree has put there since the report is not taken off, or counts twice.
TEST(RoomWatchTest, FollowsTheTreeBetweenReports) {
  RoomWatch room;
  EXPECT_EQ(room.Left(0).for_merges, UINT64_MAX);
  EXPECT_EQ(room.Left(0).for_data, UINT64_MAX);
  room.NoteReport({.for_merges = 1000, .for_data = 500}, /*own_bytes=*/300);
  EXPECT_EQ(room.Left(300).for_merges, 1000u);
  EXPECT_EQ(room.Left(700).for_merges, 600u);
  EXPECT_EQ(room.Left(700).for_data, 100u);
  EXPECT_EQ(room.Left(900).for_data, 0u);
  EXPECT_EQ(room.Left(2000).for_merges, 0u);
  // What has been given back may have gone to others.
  EXPECT_EQ(room.Left(100).for_merges, 1000u);
  EXPECT_FALSE(room.Left(100).wanted);
  room.NoteReport({.for_merges = 600, .for_data = 600, .wanted = true}, 700);
  EXPECT_EQ(room.Left(700).for_merges, 600u);
  EXPECT_TRUE(room.Left(900).wanted);
}

// Fails if a merge waits until there is no room for it, or for data, or starts though there is
// plenty.
TEST(RoomLeftTest, PressesBeforeItIsTooLate) {
  const RoomLeft left{.for_merges = 1000, .for_data = 300};
  EXPECT_FALSE(left.IsPressing(299));
  EXPECT_TRUE(left.IsPressing(300));
  EXPECT_FALSE(RoomLeft{1000}.IsPressing(499));
  EXPECT_TRUE(RoomLeft{1000}.IsPressing(500));
  EXPECT_TRUE(RoomLeft{0}.IsPressing(1));
  EXPECT_FALSE(RoomLeft{}.IsPressing(UINT64_MAX / 4));
  EXPECT_TRUE((RoomLeft{1000, 1000, /*full=*/true}.IsPressing(100)));
  EXPECT_TRUE(left.Fits(1000));
  EXPECT_FALSE(left.Fits(1001));
}

// Fails if leftovers are merged though nobody waits for room, or for others' sake without room to
// do so.
TEST(RoomLeftTest, LeftoversAreWorthItWhileSomebodyWaits) {
  EXPECT_FALSE((RoomLeft{1000, 0}.IsWorthLeftovers(1)));
  EXPECT_TRUE((RoomLeft{1000, 0, /*full=*/true}.IsWorthLeftovers(1001)));
  const RoomLeft wanted{.for_merges = 1000, .for_data = 0, .wanted = true};
  EXPECT_TRUE(wanted.IsWorthLeftovers(1000));
  EXPECT_FALSE(wanted.IsWorthLeftovers(1001));
}

}  // namespace
}  // namespace dlsm
