// Databases that are destroyed while somebody else destroys them, too, and then makes them anew:
// what becomes of the new ones, and of who was held up.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"

namespace dlsm {
namespace {

// A database on two memory nodes, of which the first is the home.
class OvertakenDestroyTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 3000;

  OvertakenDestroyTest() : nodes_(2, "tcp"), options_(nodes_.With(TinyOptions())) {
    options_.write_buffer_size = size_t{128} << 10;
  }

  // Shards 0 and 2 on the first memory node, shard 1 on the second.
  void Divide() { options_.shard_boundaries = {NumberedKey(1000), NumberedKey(2000)}; }
  // One shard, with tables on both.
  void Place() {
    options_.placement = TablePlacement::kRoundRobin;
    options_.level0_file_num_compaction_trigger = 1000;  // No merges: flushes go to both of them.
    options_.level0_stop_writes_trigger = 2000;
  }

  // Makes a database, fills and closes it.
  void Make(const std::string& value) {
    Options options = options_;
    options.error_if_exists = true;
    const auto db = OpenOrDie(options, "db");
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value));
    }
    ASSERT_OK(db->Close());
    EXPECT_GT(nodes_[1].used_bytes(), uint64_t{16} << 10) << "it has tables there";
  }
  void MakeAnew() {
    EXPECT_OK(DestroyDB("db", options_));
    Make(New());
  }
  // It is there as MakeAnew() has made it, and goes.
  void ExpectNewOne() {
    Options options = options_;
    options.create_if_missing = false;
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, "db", &db));
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), New()) << i;
    }
    CloseAndDestroy(&db, options_, "db");
    ExpectNothing();
  }
  void ExpectNothing() {
    for (size_t i = 0; i < nodes_.size(); ++i) EXPECT_EQ(nodes_[i].used_bytes(), 0u) << i;
  }

  // Destroys the database, and is held up once, while `meanwhile` is done: when it has made
  // `before` calls of this method, before the next.
  Status DestroyWhile(Method held_up, int before, const std::function<void()>& meanwhile) {
    int calls = 0;
    Options options = options_;
    options.node_connector =
        std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
          if (method == held_up && calls++ == before) meanwhile();
          return Status::OK();
        });
    Status destroyed = DestroyDB("db", options);
    EXPECT_GT(calls, before) << "nothing was done meanwhile";
    return destroyed;
  }

  static std::string Old() { return "old" + std::string(100, '.'); }
  static std::string New() { return "new" + std::string(100, '.'); }
  static bool Says(const Status& status, const std::string& what) {
    return status.ToString().find(what) != std::string::npos;
  }

  TestNodes nodes_;
  Options options_;
};

struct Moment {
  const char* name;
  bool placed;
  Method held_up;
  int before;
};

void PrintTo(const Moment& moment, std::ostream* out) { *out << moment.name; }

// Moments of a DestroyDB() that has found the database.
class OvertakenDestroyMomentsTest : public OvertakenDestroyTest,
                                    public testing::WithParamInterface<Moment> {
 protected:
  void SetUp() override {
    if (GetParam().placed) {
      Place();
    } else {
      Divide();
    }
    ASSERT_NO_FATAL_FAILURE(Make(Old()));
  }

  Status DestroyWhile(const std::function<void()>& meanwhile) {
    return OvertakenDestroyTest::DestroyWhile(GetParam().held_up, GetParam().before, meanwhile);
  }
};

// Fails if parts of the new database are destroyed in the place of those of the former one: it
// could not be opened then.
TEST_P(OvertakenDestroyMomentsTest, WhatIsMadeAnewIsLeftWhole) {
  const Status destroyed = DestroyWhile([this] { MakeAnew(); });
  if (GetParam().held_up == Method::kDestroyDatabase) {
    EXPECT_TRUE(destroyed.IsInvalidArgument()) << destroyed.ToString();
    EXPECT_TRUE(Says(destroyed, "is not the one that was to be destroyed")) << destroyed.ToString();
  } else {
    EXPECT_TRUE(destroyed.IsBusy()) << destroyed.ToString();
    EXPECT_TRUE(Says(destroyed, "just has been")) << destroyed.ToString();
  }
  ExpectNewOne();
}

// Fails if who finds that another has destroyed the database meanwhile takes that for an error.
TEST_P(OvertakenDestroyMomentsTest, TwoThatDestroyItSucceed) {
  const Status destroyed = DestroyWhile([this] { EXPECT_OK(DestroyDB("db", options_)); });
  EXPECT_OK(destroyed);
  ExpectNothing();
}

INSTANTIATE_TEST_SUITE_P(
    Moments, OvertakenDestroyMomentsTest,
    testing::Values(Moment{"BeforeTheMapIsRead", false, Method::kOpenDatabase, 0},
                    Moment{"BeforeShardsAreListed", false, Method::kListDatabases, 1},
                    Moment{"WhenShardsHaveBeenListed", false, Method::kListDatabases, 3},
                    Moment{"BeforeTheSecondShardGoes", false, Method::kDestroyDatabase, 0},
                    Moment{"BeforeTheThirdShardGoes", false, Method::kDestroyDatabase, 1},
                    Moment{"BeforeTheFirstShardGoes", false, Method::kDestroyDatabase, 2},
                    Moment{"PlacedBeforeTheMapIsRead", true, Method::kOpenDatabase, 0},
                    Moment{"PlacedBeforeTablesAreListed", true, Method::kListDatabases, 1},
                    Moment{"PlacedBeforeTablesGo", true, Method::kDestroyDatabase, 0},
                    Moment{"PlacedBeforeTheShardGoes", true, Method::kDestroyDatabase, 1}),
    [](const auto& each) { return std::string(each.param.name); });

// A database has lost its first shard. Who destroys the rest has seen that it was in use, and is
// held up. Fails if a shard of the new database is destroyed in its place, whatever is in it.
TEST_F(OvertakenDestroyTest, WhatIsMadeInThePlaceOfALostOneIsLeftWhole) {
  Divide();
  ASSERT_NO_FATAL_FAILURE(Make(Old()));
  nodes_[0].Restart();
  const Status destroyed = DestroyWhile(Method::kDestroyDatabase, 0, [this] { MakeAnew(); });
  EXPECT_TRUE(destroyed.IsInvalidArgument()) << destroyed.ToString();
  EXPECT_TRUE(Says(destroyed, "is not the one that was to be destroyed")) << destroyed.ToString();
  ExpectNewOne();
}

}  // namespace
}  // namespace dlsm
