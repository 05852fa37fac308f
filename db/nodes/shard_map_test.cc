#include "db/nodes/shard_map.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "util/status_testing.h"

namespace dlsm {
namespace {

ShardMap MapOf(std::vector<std::string> boundaries, std::vector<std::string> nodes) {
  return ShardMap{std::move(boundaries), std::move(nodes)};
}

// Fails if a boundary belongs to the shard before it, or a key is looked for elsewhere.
TEST(ShardMapTest, ABoundaryBeginsItsShard) {
  const ShardMap map = MapOf({"b", "d"}, {"", "", ""});
  const Comparator& order = *BytewiseComparator();
  EXPECT_EQ(map.ShardOf(order, ""), 0u);
  EXPECT_EQ(map.ShardOf(order, "a\xff"), 0u);
  EXPECT_EQ(map.ShardOf(order, "b"), 1u);
  EXPECT_EQ(map.ShardOf(order, Slice("b\0", 2)), 1u);
  EXPECT_EQ(map.ShardOf(order, "c"), 1u);
  EXPECT_EQ(map.ShardOf(order, "d"), 2u);
  EXPECT_EQ(map.ShardOf(order, "e"), 2u);
}

// Fails if a count alone divides eight-byte keys unevenly, or not in the order of the database.
TEST(ShardMapTest, ACountDividesTheKeySpaceEvenly) {
  Options options;
  options.shards = 4;
  ShardMap map;
  ASSERT_OK(ShardMap::FromOptions(options, {"m0", "m1"}, &map));
  EXPECT_EQ(map.boundaries, (std::vector<std::string>{std::string("\x40\0\0\0\0\0\0\0", 8),
                                                      std::string("\x80\0\0\0\0\0\0\0", 8),
                                                      std::string("\xc0\0\0\0\0\0\0\0", 8)}));
  EXPECT_EQ(map.nodes, (std::vector<std::string>{"m0", "m1", "m0", "m1"}));
  options.comparator = ReverseBytewiseComparator();
  options.compute_node_id = 1;
  ASSERT_OK(ShardMap::FromOptions(options, {"m0", "m1"}, &map));
  EXPECT_OK(map.CheckOrder(*options.comparator));
  EXPECT_EQ(map.boundaries.front()[0], '\xc0');
  EXPECT_EQ(map.nodes.front(), "m1");
}

// Fails if options that say nothing are refused, or such that say something else are not.
TEST(ShardMapTest, WhatIsStoredWins) {
  const ShardMap map = MapOf({"b", "d"}, {"m0", "m1", "m0"});
  Options options;
  EXPECT_OK(map.CheckAgainst(options, {"m0", "m1"}));
  options.shards = 3;
  EXPECT_OK(map.CheckAgainst(options, {"m1", "m0"}));
  options.shard_boundaries = {"b", "d"};
  EXPECT_OK(map.CheckAgainst(options, {"m0", "m1"}));
  options.shard_boundaries = {"b", "e"};
  const Status boundaries = map.CheckAgainst(options, {"m0", "m1"});
  EXPECT_TRUE(boundaries.IsInvalidArgument());
  EXPECT_NE(boundaries.ToString().find("\"d\""), std::string::npos) << boundaries.ToString();
  options.shard_boundaries.clear();
  options.shards = 2;
  const Status count = map.CheckAgainst(options, {"m0", "m1"});
  EXPECT_TRUE(count.IsInvalidArgument());
  EXPECT_NE(count.ToString().find("3 shards"), std::string::npos) << count.ToString();
  const Status nodes = map.CheckAgainst(Options(), {"m0", "m2"});
  EXPECT_TRUE(nodes.IsInvalidArgument());
  EXPECT_NE(nodes.ToString().find("m1"), std::string::npos) << nodes.ToString();
}

// Fails if a mistake in the options gets as far as a memory node.
TEST(ShardMapTest, EachBadOptionIsNamed) {
  const auto check = [](int shards, std::vector<std::string> boundaries) {
    Options options;
    options.shards = shards;
    options.shard_boundaries = std::move(boundaries);
    return CheckShardOptions(options);
  };
  EXPECT_OK(check(1, {}));
  EXPECT_OK(check(256, {}));
  EXPECT_OK(check(1, {"a", "b"}));
  EXPECT_OK(check(3, {"a", "b"}));
  EXPECT_TRUE(check(0, {}).IsInvalidArgument());
  EXPECT_TRUE(check(257, {}).IsInvalidArgument());
  EXPECT_TRUE(check(2, {"a", "b"}).IsInvalidArgument());
  EXPECT_TRUE(check(1, {"b", "a"}).IsInvalidArgument());
  EXPECT_TRUE(check(1, {"a", "a"}).IsInvalidArgument());
  EXPECT_TRUE(check(1, std::vector<std::string>(256, "a")).IsInvalidArgument());
}

// Fails if a user's database could be taken for another one's shard.
TEST(ShardMapTest, NamesOfShardsAreTheirOwn) {
  EXPECT_EQ(ShardName("db", 0), "db");
  EXPECT_TRUE(IsShardTablesName(ShardTablesName("db", 0)));
  EXPECT_FALSE(IsShardTablesName(ShardName("db", 1)));
  for (const std::string& part : {ShardName("db", 1), ShardTablesName("db", 12)}) {
    EXPECT_TRUE(IsPartOf(part, "db")) << part;
    EXPECT_FALSE(IsPartOf(part, "d")) << part;
    EXPECT_FALSE(IsPartOf(part, "db2")) << part;
    EXPECT_FALSE(IsPartOf(part, part)) << part;
  }
  EXPECT_FALSE(IsPartOf("db", "db"));
}

// Fails if a map is changed on its way, or bytes from outside lead beyond their end.
TEST(ShardMapTest, ComesBackAsItWasOrNotAtAll) {
  const ShardMap map = MapOf({"b", std::string("d\0", 2)}, {"m0", "", "host:1"});
  std::string bytes;
  map.EncodeTo(&bytes);
  ShardMap decoded;
  Slice from = bytes;
  ASSERT_OK(decoded.DecodeFrom(&from));
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(decoded, map);
  for (size_t length = 0; length < bytes.size(); ++length) {
    from = Slice(bytes.data(), length);
    EXPECT_TRUE(decoded.DecodeFrom(&from).IsCorruption()) << length;
  }
  std::string many("\xff\xff\xff\xff\x0f", 5);
  from = many;
  EXPECT_TRUE(decoded.DecodeFrom(&from).IsCorruption());
  EXPECT_TRUE(MapOf({"d", "b"}, {"", "", ""}).CheckOrder(*BytewiseComparator()).IsCorruption());
}

}  // namespace
}  // namespace dlsm
