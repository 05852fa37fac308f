// How databases are made whose tables may be on several memory nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

// A database of one shard whose home is the first of three memory nodes.
class PlacementOpenTest : public testing::Test {
 protected:
  PlacementOpenTest() { options_.placement = TablePlacement::kRoundRobin; }

  // A memory node that takes no manifest.
  Options WithoutManifestsAt(size_t node) {
    Options options = options_;
    options.node_connector = std::make_shared<WatchedConnector>(
        [refusing = nodes_[node].server().port()](uint16_t port, Method method, const Slice&) {
          const bool refused = port == refusing && method == Method::kPutManifest;
          return refused ? Status::IOError("the test has lost this call") : Status::OK();
        });
    return options;
  }
  uint64_t DatabasesAt(size_t node) { return nodes_[node].server().node().Statistics().databases; }

  TestNodes nodes_{3, "tcp"};
  Options options_ = nodes_.With(TinyOptions());
};

// The home takes no manifest, so the database was never made. Fails if other memory nodes keep
// anything of it: nobody need name them again who makes it another time, or destroys it.
TEST_F(PlacementOpenTest, WhatIsNotMadeToItsEndLeavesNothingElsewhere) {
  std::unique_ptr<DB> db;
  const Status failed = DB::Open(WithoutManifestsAt(0), "db", &db);
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  for (size_t i = 0; i < nodes_.size(); ++i) EXPECT_EQ(DatabasesAt(i), 0u) << i;
}

// The database is made but for the list at a memory node that takes none. Fails if the error does
// not say which one that is, or if the next open leaves any of them without: followers would go
// with its owner.
TEST_F(PlacementOpenTest, NamesWhoTakesNoListAndTheNextOpenBeginsThem) {
  std::unique_ptr<DB> db;
  const Status failed = DB::Open(WithoutManifestsAt(1), "db", &db);
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_THAT(failed.ToString(), HasSubstr("memory node " + nodes_[1].address()));
  EXPECT_EQ(DatabasesAt(0), 1u) << "it has been made";
  EXPECT_EQ(DatabasesAt(1), 0u);
  ASSERT_OK(OpenOrDie(options_, "db")->Close());
  for (size_t i = 0; i < nodes_.size(); ++i) EXPECT_EQ(DatabasesAt(i), 1u) << i;
  EXPECT_OK(DestroyDB("db", options_));
  for (size_t i = 0; i < nodes_.size(); ++i) EXPECT_EQ(nodes_[i].used_bytes(), 0u) << i;
}

// Another memory node is named, which takes no list. Fails if the database is tied to it all the
// same: where it has gone for good there would be no way in any more, though it never had a table.
TEST_F(PlacementOpenTest, IsNotTiedToAMemoryNodeThatTakesNoList) {
  Options fewer = options_;
  fewer.memory_nodes = nodes_[0].address() + "," + nodes_[1].address();
  ASSERT_OK(OpenOrDie(fewer, "db")->Close());
  std::unique_ptr<DB> db;
  EXPECT_TRUE(DB::Open(WithoutManifestsAt(2), "db", &db).IsIOError());
  ASSERT_OK(DB::Open(fewer, "db", &db));
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("db", options_));
  for (size_t i = 0; i < nodes_.size(); ++i) EXPECT_EQ(nodes_[i].used_bytes(), 0u) << i;
}

}  // namespace
}  // namespace dlsm
