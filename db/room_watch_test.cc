#include "db/room_watch.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if what the tree has put there since the report is not taken off, or counts twice.
TEST(RoomWatchTest, FollowsTheTreeBetweenReports) {
  RoomWatch room;
  EXPECT_FALSE(room.FreeBytes(0).has_value());
  room.NoteReport(/*free_bytes=*/1000, /*own_bytes=*/300);
  EXPECT_EQ(room.FreeBytes(300), 1000u);
  EXPECT_EQ(room.FreeBytes(700), 600u);
  EXPECT_EQ(room.FreeBytes(2000), 0u);
  // What has been given back may have gone to others.
  EXPECT_EQ(room.FreeBytes(100), 1000u);
  room.NoteReport(600, 700);
  EXPECT_EQ(room.FreeBytes(700), 600u);
}

// Fails if a merge waits until there is no room for it, or starts though there is plenty.
TEST(RoomLeftTest, PressesBeforeItIsTooLate) {
  EXPECT_FALSE(RoomLeft{1000}.IsPressing(100));
  EXPECT_TRUE(RoomLeft{1000}.IsPressing(500));
  EXPECT_TRUE(RoomLeft{0}.IsPressing(1));
  EXPECT_FALSE(RoomLeft{}.IsPressing(UINT64_MAX / 4));
  EXPECT_TRUE((RoomLeft{1000, /*full=*/true}.IsPressing(100)));
  EXPECT_TRUE(RoomLeft{1000}.Fits(1000));
  EXPECT_FALSE(RoomLeft{1000}.Fits(1001));
}

}  // namespace
}  // namespace dlsm
