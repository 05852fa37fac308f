#include "util/rpc/messages/database_name.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

TEST(DatabaseNameTest, PartsAreTheirDatabases) {
  const std::string range = PartName("db", DatabasePart::kRange, 12);
  EXPECT_EQ(range, "db#range-12");
  for (const std::string& whole : {std::string("db"), range}) {
    const std::string shard = PartName(whole, DatabasePart::kShard, 1);
    const std::string tables = PartName(whole, DatabasePart::kShardTables, 0);
    EXPECT_TRUE(IsPartName(shard, DatabasePart::kShard));
    EXPECT_FALSE(IsPartName(shard, DatabasePart::kShardTables));
    EXPECT_TRUE(IsPartName(tables, DatabasePart::kShardTables));
    EXPECT_FALSE(IsPartName(tables, DatabasePart::kShard));
    for (const std::string& each : {whole, shard, tables}) EXPECT_EQ(NameOfUsers(each), "db");
  }
  EXPECT_TRUE(IsPartName(range, DatabasePart::kRange));
}

// Fails if somebody becomes the owner of a database by the beginning of its name.
TEST(DatabaseNameTest, OthersAreNobodysParts) {
  for (const char* name : {"", "db", "db#", "#", "db#eu", "db#1", "db#shard", "db#shard-",
                           "db#shard-1x", "db#shard--1", "db#shards-1", "db#tables-of-shard-",
                           "db#range-1#eu", "db-shard-1", "db#Range-1"}) {
    EXPECT_EQ(NameOfUsers(name), name);
  }
  EXPECT_EQ(NameOfUsers("db#eu#shard-1"), "db#eu");
}

}  // namespace
}  // namespace dlsm
