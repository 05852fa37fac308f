#include "db/nodes/merge_placement.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

constexpr uint64_t kPlacementMegabyte = 1'000'000;

// Both merge 100 MB a second in each of two threads, and neither has anything to do.
class MergePlacementTest : public testing::Test {
 protected:
  MergePlacementTest() {
    remote_.known = true;
    remote_.load.workers = 2;
    remote_.load.bytes_per_second = 100 * kPlacementMegabyte;
    local_.threads = 2;
    local_.bytes_per_second = 100 * kPlacementMegabyte;
  }
  PlaceChoice Choose(uint64_t bytes = 10 * kPlacementMegabyte) {
    return placement_.Choose(bytes, remote_, local_);
  }

  MergePlacement placement_;
  RemoteMergeSide remote_;
  LocalMergeSide local_;
};

TEST_F(MergePlacementTest, NearTheDataWhereBothAreEqual) {
  const PlaceChoice choice = Choose();
  EXPECT_FALSE(choice.local);
  EXPECT_EQ(choice.reason, PlaceReason::kNearData);
  EXPECT_DOUBLE_EQ(choice.remote_seconds, 0.1);
  EXPECT_DOUBLE_EQ(choice.local_seconds, 0.1);
}

// Fails if what waits ahead is not counted, or not divided among the workers.
TEST_F(MergePlacementTest, AFullQueueSendsItHere) {
  remote_.load.bytes_waiting = 200 * kPlacementMegabyte;
  const PlaceChoice choice = Choose();
  EXPECT_TRUE(choice.local);
  EXPECT_EQ(choice.reason, PlaceReason::kMemoryNodeBusy);
  EXPECT_DOUBLE_EQ(choice.remote_seconds, 1.1);
  EXPECT_DOUBLE_EQ(choice.local_seconds, 0.1);
}

TEST_F(MergePlacementTest, MoreWorkersEndAQueueSooner) {
  remote_.load.bytes_waiting = 40 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);  // 0.3 s against 0.1 s.
  remote_.load.workers = 40;
  EXPECT_FALSE(Choose().local);
}

// Fails if a side with a small lead is taken: then load would swing between the sides.
TEST_F(MergePlacementTest, TheMemoryNodeIsPreferred) {
  remote_.load.bytes_waiting = 18 * kPlacementMegabyte;  // 0.19 s against 0.1 s.
  EXPECT_FALSE(Choose().local);
  remote_.load.bytes_waiting = 22 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);
}

// Fails without hysteresis.
TEST_F(MergePlacementTest, ComesBackLaterThanItWent) {
  remote_.load.bytes_waiting = 10 * kPlacementMegabyte;  // 0.15 s against 0.1 s.
  EXPECT_FALSE(Choose().local);
  remote_.load.bytes_waiting = 30 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);
  remote_.load.bytes_waiting = 10 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);
  remote_.load.bytes_waiting = 4 * kPlacementMegabyte;  // 0.12 s.
  EXPECT_FALSE(Choose().local);
  remote_.load.bytes_waiting = 10 * kPlacementMegabyte;
  EXPECT_FALSE(Choose().local) << "it is back";
}

TEST_F(MergePlacementTest, WhatWasSentSinceTheReportWaitsThereToo) {
  remote_.sent_bytes = 200 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);
}

TEST_F(MergePlacementTest, WhatRunsHereIsAhead) {
  remote_.load.bytes_waiting = 100 * kPlacementMegabyte;  // 0.6 s.
  local_.bytes_left = 100 * kPlacementMegabyte;
  EXPECT_FALSE(Choose().local);
}

// Fails if a budget is forgotten on either side.
TEST_F(MergePlacementTest, BudgetsBoundTheRates) {
  remote_.load.bytes_per_second_max = 10 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);
  local_.bytes_per_second_max = 10 * kPlacementMegabyte;
  EXPECT_FALSE(Choose().local);
}

// Fails if a guess is acted upon.
TEST_F(MergePlacementTest, WhatIsUnknownSpeaksForTheMemoryNode) {
  remote_.load.bytes_waiting = 1000 * kPlacementMegabyte;
  remote_.known = false;  // No report, or an old one.
  EXPECT_FALSE(Choose().local);
  EXPECT_EQ(Choose().reason, PlaceReason::kUnknown);
  remote_.known = true;
  EXPECT_TRUE(Choose().local);
  remote_.load.bytes_per_second = 0;  // It has merged nothing yet.
  EXPECT_FALSE(Choose().local);
  EXPECT_EQ(Choose().reason, PlaceReason::kUnknown);
  remote_.load.bytes_per_second = 100 * kPlacementMegabyte;
  local_.bytes_per_second = 0;  // Nothing was merged here, and nothing flushed.
  EXPECT_FALSE(Choose().local);
  EXPECT_EQ(Choose().reason, PlaceReason::kUnknown);
}

// Fails if the transfers of a merge here are not counted, both ways: 10 MB at 100 MB/s and 20 MB at
// 50 MB/s.
TEST_F(MergePlacementTest, WithoutALocalRateTheNetworkIsAdded) {
  local_.bytes_per_second = 0;
  local_.transfer_bytes_per_second = 50 * kPlacementMegabyte;
  remote_.load.bytes_waiting = 150 * kPlacementMegabyte;
  const PlaceChoice choice = Choose();
  EXPECT_NEAR(choice.local_seconds, 0.5, 1e-9);
  EXPECT_FALSE(choice.local) << "0.85 s against 0.5 s";
  local_.transfer_bytes_per_second = 1000 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local);
}

// Fails if a merge takes busy processors from the application for little gain, or if a host that
// both sides share counts against one of them.
TEST_F(MergePlacementTest, ABusyComputeNodeCountsTwice) {
  remote_.load.bytes_waiting = 50 * kPlacementMegabyte;  // 0.35 s against 0.1 s.
  local_.cpu_idle = 0.02;
  EXPECT_FALSE(Choose().local);
  remote_.load.cpu_idle = 0.02;
  EXPECT_TRUE(Choose().local);
  remote_.load.cpu_idle = 0.5;
  remote_.load.bytes_waiting = 100 * kPlacementMegabyte;
  EXPECT_TRUE(Choose().local) << "three times as long, even so";
}

TEST_F(MergePlacementTest, WhatIsRefusedRunsHere) {
  remote_.refused = true;
  EXPECT_TRUE(Choose().local);
  EXPECT_EQ(Choose().reason, PlaceReason::kRefused);
  remote_.refused = false;
  EXPECT_FALSE(Choose().local);
  remote_.load.workers = 0;
  EXPECT_TRUE(Choose().local);
  EXPECT_EQ(Choose().reason, PlaceReason::kRefused);
}

// Fails if tiny merges leave for the sake of a ratio.
TEST_F(MergePlacementTest, AFewMillisecondsAreNotWorthIt) {
  remote_.load.bytes_waiting = kPlacementMegabyte;
  EXPECT_FALSE(Choose(1000).local);
}

}  // namespace
}  // namespace dlsm
