#include "db/nodes/table_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace dlsm {
namespace {

std::vector<PlacementNode> NodesWithFree(const std::vector<uint64_t>& free_bytes) {
  std::vector<PlacementNode> nodes;
  for (const uint64_t bytes : free_bytes) nodes.push_back({.free_bytes = bytes});
  return nodes;
}

// Fails if a table leaves its shard's memory node though nobody asked for that.
TEST(TablePlacementTest, ByShardIsTheHomeOnly) {
  TablePlacer placer(TablePlacement::kByShard, 2, 1);
  EXPECT_EQ(placer.Order(NodesWithFree({1, 100, 100}), 3), (std::vector<size_t>{0}));
}

// Fails if a node gets two tables in a row, or a fragment shares a node with another.
TEST(TablePlacementTest, RoundRobinGoesRound) {
  TablePlacer placer(TablePlacement::kRoundRobin, 2, 1);
  const auto nodes = NodesWithFree({1, 100, 100});
  EXPECT_EQ(placer.Order(nodes, 1), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(placer.Order(nodes, 1), (std::vector<size_t>{1, 2, 0}));
  EXPECT_EQ(placer.Order(nodes, 2), (std::vector<size_t>{2, 0, 1}));
  EXPECT_EQ(placer.Order(nodes, 9), (std::vector<size_t>{1, 2, 0})) << "as wide as it can be";
}

// Fails if a node that is full or does not answer is tried before one that may have room, or is
// forgotten.
TEST(TablePlacementTest, TriesUnusableNodesLast) {
  for (const auto placement : {TablePlacement::kRoundRobin, TablePlacement::kPowerOfD}) {
    TablePlacer placer(placement, 2, 1);
    auto nodes = NodesWithFree({300, 200, 100, 50});
    nodes[0].usable = nodes[2].usable = false;
    for (int i = 0; i < 20; ++i) {
      std::vector<size_t> order = placer.Order(nodes, 1);
      EXPECT_EQ(std::set<size_t>(order.begin(), order.begin() + 2), (std::set<size_t>{1, 3}));
      EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), 4u);
    }
  }
}

// Fails if fewer or more than d nodes are compared: with d nodes of n drawn, the one with the k-th
// most room is chosen by a known share of draws.
TEST(TablePlacementTest, PowerOfDTakesTheBestOfThoseDrawn) {
  const auto nodes = NodesWithFree({400, 300, 200, 100});
  const auto shares = [&nodes](size_t d) {
    TablePlacer placer(TablePlacement::kPowerOfD, d, 7);
    std::map<size_t, int> chosen;
    for (int i = 0; i < 6000; ++i) ++chosen[placer.Order(nodes, 1).front()];
    return chosen;
  };
  std::map<size_t, int> one = shares(1);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(one[i], 1500, 150) << i;
  std::map<size_t, int> two = shares(2);  // Of six pairs.
  EXPECT_NEAR(two[0], 3000, 200);
  EXPECT_NEAR(two[1], 2000, 200);
  EXPECT_NEAR(two[2], 1000, 200);
  EXPECT_EQ(two[3], 0);
  EXPECT_EQ(shares(4)[0], 6000);
  EXPECT_EQ(shares(100)[0], 6000);
}

// Fails if the fragments of one table land on a node twice, or not on the best of 2 * width.
TEST(TablePlacementTest, ScattersOverTheBestOfTwiceAsMany) {
  TablePlacer placer(TablePlacement::kPowerOfD, 2, 3);
  const auto nodes = NodesWithFree({10, 40, 30, 20});
  const std::vector<size_t> order = placer.Order(nodes, 2);
  EXPECT_EQ(order, (std::vector<size_t>{1, 2, 3, 0})) << "all four were drawn";
}

// Fails if tables go on to a node whose merges have fallen behind, while one as empty is idle; or
// to one that is nearly full because it is idle.
TEST(TablePlacementTest, WeighsRoomWithMergesThatWait) {
  PlacementNode busy{.free_bytes = 1000, .merge_bytes_waiting = 400};
  PlacementNode idle{.free_bytes = 950};
  EXPECT_GT(RoomOf(idle), RoomOf(busy));
  idle.free_bytes = 800;
  EXPECT_LT(RoomOf(idle), RoomOf(busy));
  EXPECT_EQ(RoomOf({.free_bytes = 1, .merge_bytes_waiting = 1000}), 0u);
}

// Fails if placing by power of d leaves nodes unevenly full, whatever the size of tables is.
TEST(TablePlacementTest, PowerOfDEvensOut) {
  TablePlacer placer(TablePlacement::kPowerOfD, 2, 11);
  Random random(5);
  auto nodes = NodesWithFree(std::vector<uint64_t>(10, 1 << 20));
  for (int i = 0; i < 2000; ++i) {
    nodes[placer.Order(nodes, 1).front()].free_bytes -= 50 + random.Uniform(100);
  }
  uint64_t most = 0;
  uint64_t total = 0;
  for (const PlacementNode& node : nodes) {
    most = std::max<uint64_t>(most, (1 << 20) - node.free_bytes);
    total += (1 << 20) - node.free_bytes;
  }
  EXPECT_LE(static_cast<double>(most) * 10 / static_cast<double>(total), 1.05);
}

// Fails if a merge runs away from its input without need, stays where it makes the imbalance worse,
// or is sent to a node that does not answer.
TEST(TablePlacementTest, MergesRunAtTheirInputUnlessThereIsLittleRoom) {
  std::vector<PlacementNode> nodes = {{.free_bytes = 1000, .used_bytes = 3200},
                                      {.free_bytes = 1050, .used_bytes = 3200},
                                      {.free_bytes = 1050, .used_bytes = 3200}};
  const std::vector<size_t> order = {2, 1, 0};
  EXPECT_EQ(OrderForMerge(nodes, {70, 30, 0}, order), (std::vector<size_t>{0, 2, 1}));
  nodes[0].free_bytes = 900;
  EXPECT_EQ(OrderForMerge(nodes, {70, 30, 0}, order), order);
  nodes[0].free_bytes = 2000;
  nodes[0].usable = false;
  EXPECT_EQ(OrderForMerge(nodes, {70, 30, 0}, order), order);
}

}  // namespace
}  // namespace dlsm
