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
TEST(RoomWatchTest, PressesBeforeItIsTooLate) {
  EXPECT_FALSE(RoomWatch::IsPressing(100, 1000));
  EXPECT_TRUE(RoomWatch::IsPressing(500, 1000));
  EXPECT_TRUE(RoomWatch::IsPressing(1, 0));
  EXPECT_FALSE(RoomWatch::IsPressing(UINT64_MAX / 4, UINT64_MAX));
}

}  // namespace
}  // namespace dlsm
