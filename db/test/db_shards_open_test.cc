// One database over several shards and memory nodes: how it is made, opened again and destroyed,
// and what becomes of its parts where that is cut short, or other memory nodes are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "dLSM/write_batch.h"
#include "db/test/shards_testing.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

size_t LinesOf(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Fails if the map is not stored, does not win over options that say nothing, or gives way to such
// that say something else.
TEST_F(ShardsTest, OpensAgainAsItWasDivided) {
  {
    const auto db = OpenOrDie(options_, "divided");
    Fill(db.get());
    EXPECT_EQ(LinesOf(Text(db.get(), "dlsm.shards")), 4u);
    EXPECT_NE(Text(db.get(), "dlsm.shards").find(NumberedKey(2000)), std::string::npos);
  }
  EXPECT_EQ(DatabasesAt(first_), 2u);
  EXPECT_EQ(DatabasesAt(second_), 1u);
  Options other = options_;
  other.shard_boundaries.back() = "later";
  EXPECT_TRUE(TryOpen(other).IsInvalidArgument());
  EXPECT_TRUE(Says(TryOpen(other), NumberedKey(2000)));
  other = NoShardOptions();
  other.shards = 4;
  EXPECT_TRUE(TryOpen(other).IsInvalidArgument());
  EXPECT_TRUE(Says(TryOpen(other), "has 3 shards"));
  other = NoShardOptions();
  other.memory_nodes = first_.address();
  EXPECT_TRUE(TryOpen(other).IsInvalidArgument());
  EXPECT_TRUE(Says(TryOpen(other), second_.address()));
  {
    const auto db = OpenOrDie(NoShardOptions(), "divided");
    ExpectFilled(db.get());
    EXPECT_EQ(LinesOf(Text(db.get(), "dlsm.shards")), 4u);
    // What is written now is newer than anything that any shard has.
    WriteBatch batch;
    batch.Put(NumberedKey(1), "new");
    batch.Put(NumberedKey(1001), "new");
    batch.Delete(NumberedKey(2001));
    ASSERT_OK(db->Write(WriteOptions(), &batch));
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    EXPECT_EQ(GetOr(db.get(), NumberedKey(1)), "new");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(1001)), "new");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(2001)), "(none)");
  }
  EXPECT_OK(DestroyDB("divided", options_));
}

// Fails if a database with one shard is divided behind its owner's back, or takes another's name.
TEST_F(ShardsTest, OneShardStaysOneShard) {
  { const auto db = OpenOrDie(NoShardOptions(), "whole"); }
  EXPECT_TRUE(TryOpen(options_, "whole").IsInvalidArgument());
  { const auto db = OpenOrDie(NoShardOptions(), "whole"); }
  EXPECT_TRUE(TryOpen(NoShardOptions(), "whole#shard-1").IsInvalidArgument());
  EXPECT_TRUE(DestroyDB("whole#shard-1", options_).IsInvalidArgument());
  EXPECT_OK(DestroyDB("whole", options_));
}

// Fails if a part of a database outlives it, or a failure half way makes the rest unreachable.
TEST_F(ShardsTest, DestroyTakesAllShardsAndCanBeRepeated) {
  {
    const auto db = OpenOrDie(options_, "divided");
    Fill(db.get());
    EXPECT_TRUE(DestroyDB("divided", NoShardOptions()).IsBusy());
    EXPECT_EQ(DatabasesAt(second_), 1u);
  }
  second_.Kill();
  const Status failed = DestroyDB("divided", NoShardOptions());
  EXPECT_TRUE(failed.IsIOError() || failed.IsTimedOut()) << failed.ToString();
  EXPECT_TRUE(Says(failed, second_.address())) << failed.ToString();
  EXPECT_EQ(DatabasesAt(first_), 1u) << "the map is still there";
  second_.Restart();
  EXPECT_OK(DestroyDB("divided", NoShardOptions()));
  EXPECT_EQ(DatabasesAt(first_), 0u);
  EXPECT_OK(DestroyDB("divided", NoShardOptions()));
  EXPECT_EQ(first_.used_bytes(), 0u);
}

// A shard is left where a database was destroyed by halves, or its first shard was lost. Fails if a
// new database of that name finds old data in it, or destroys that without anybody's having asked
// for it.
TEST_F(ShardsTest, WhatIsLeftOfAnotherDatabaseIsNotFound) {
  {
    const auto db = OpenOrDie(options_, "divided");
    Fill(db.get());
  }
  first_.Restart();  // And with it, the first shard and the map are gone.
  const Status refused = TryOpen(options_);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_TRUE(Says(refused, second_.address())) << refused.ToString();
  EXPECT_TRUE(Says(refused, "DestroyDB")) << refused.ToString();
  EXPECT_EQ(DatabasesAt(first_), 0u);
  EXPECT_OK(DestroyDB("divided", options_));
  {
    const auto db = OpenOrDie(options_, "divided");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(1500)), "(none)");
    Fill(db.get());
    ExpectFilled(db.get());
  }
  first_.Restart();
  EXPECT_OK(DestroyDB("divided", options_));
  EXPECT_EQ(DatabasesAt(second_), 0u);
}

// Loses the first shard's manifest of a database with three, which comes last when it is made.
std::shared_ptr<WatchedConnector> MakesByHalves() {
  return std::make_shared<WatchedConnector>(
      [manifests = std::make_shared<int>(0)](uint16_t, Method method, const Slice&) {
        const bool first_shards = method == Method::kPutManifest && ++*manifests == 3;
        return first_shards ? Status::IOError("the test has lost this call") : Status::OK();
      });
}

// Shards with a manifest are left where a database was made by halves: up to the first shard's.
// Fails if the next attempt is refused on their account.
TEST_F(ShardsTest, WhatWasMadeByHalvesIsMadeAgain) {
  Options failing = options_;
  failing.node_connector = MakesByHalves();
  EXPECT_TRUE(TryOpen(failing).IsIOError());
  EXPECT_EQ(DatabasesAt(first_), 1u) << "the third shard";
  EXPECT_EQ(DatabasesAt(second_), 1u);
  {
    const auto db = OpenOrDie(options_, "divided");
    Fill(db.get());
    ExpectFilled(db.get());
  }
  EXPECT_OK(DestroyDB("divided", options_));
}

// Two make a database; one is held up before it clears away what an attempt to make it may have
// left, and meanwhile the other one makes it, fills its first shard, and closes it. Fails if the
// first then destroys another shard, which has no tables: without it the database cannot be opened.
TEST_F(ShardsTest, WhatAnotherHasMadeMeanwhileIsNotCutShort) {
  Options others = options_;
  others.take_over = true;
  Options slow = options_;
  slow.operation_timeout_ms = 60000;
  bool made = false;
  slow.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
        if (method != Method::kDestroyDatabase || made) return Status::OK();
        made = true;
        const auto other = OpenOrDie(others, "divided");
        Fill(other.get(), 0, 1000);
        EXPECT_OK(other->Close());
        return Status::OK();
      });
  const Status refused = TryOpen(slow);
  ASSERT_TRUE(made);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_TRUE(Says(refused, "has come into use")) << refused.ToString();
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options_, "divided", &db));
  for (uint64_t i = 0; i < 1000; i += 7) EXPECT_EQ(GetOr(db.get(), NumberedKey(i)), ValueOf(i));
  CloseAndDestroy(&db, options_, "divided");
}

// Who destroys what was made by halves is held up where that is looked at, or when it has been:
// before the first call of `moment`. Meanwhile somebody makes the database, fills and closes it.
class DestroyOfHalvesTest : public ShardsTest, public testing::WithParamInterface<Named<Method>> {};

// Fails if shards of the database are then destroyed: without them it could not be opened.
TEST_P(DestroyOfHalvesTest, WhatIsMadeMeanwhileIsLeftWhole) {
  Options failing = options_;
  failing.node_connector = MakesByHalves();
  ASSERT_TRUE(TryOpen(failing).IsIOError());
  Options slow = options_;
  slow.operation_timeout_ms = 60000;
  bool made = false;
  slow.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
        if (method != GetParam() || made) return Status::OK();
        made = true;
        const auto db = OpenOrDie(options_, "divided");
        Fill(db.get());
        EXPECT_OK(db->Close());
        return Status::OK();
      });
  const Status destroyed = DestroyDB("divided", slow);
  ASSERT_TRUE(made);
  if (GetParam() == Method::kOpenDatabase) {
    EXPECT_TRUE(destroyed.IsBusy()) << destroyed.ToString();
    EXPECT_TRUE(Says(destroyed, "just has been")) << destroyed.ToString();
  } else {
    EXPECT_TRUE(destroyed.IsInvalidArgument()) << destroyed.ToString();
    EXPECT_TRUE(Says(destroyed, "is not the one that was to be destroyed")) << destroyed.ToString();
  }
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options_, "divided", &db));
  ExpectFilled(db.get());
  CloseAndDestroy(&db, options_, "divided");
  for (TestNode* node : {&first_, &second_}) EXPECT_EQ(node->used_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Moments, DestroyOfHalvesTest,
                         testing::Values(Named<Method>{"WhenLookedAt", Method::kOpenDatabase},
                                         Named<Method>{"WhenDestroyed", Method::kDestroyDatabase}),
                         NameOf<Method>);

// Memory nodes that are named in another order, or without the first one, give a database that does
// not exist. Fails if making, or destroying, that one destroys shards of the one that does.
TEST_F(ShardsTest, MemoryNodesInAnotherOrderHarmNothing) {
  TestNode third;
  const std::string a = first_.address(), b = second_.address(), c = third.address();
  options_.memory_nodes = a + "," + b + "," + c;
  {
    const auto db = OpenOrDie(options_, "divided");
    Fill(db.get());
  }
  for (const std::string& order : {b + "," + a + "," + c, c + "," + b + "," + a}) {
    Options wrong = options_;
    wrong.memory_nodes = order;
    for (const Status& refused : {TryOpen(wrong), DestroyDB("divided", wrong)}) {
      EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
      EXPECT_TRUE(Says(refused, "has its first shard on memory node " + a)) << refused.ToString();
    }
  }
  // Nobody can be asked about the first shard.
  for (const std::string& order : {b + "," + c, c + "," + b, b, c}) {
    Options wrong = options_;
    wrong.memory_nodes = order;
    const Status refused = TryOpen(wrong);
    EXPECT_TRUE(refused.IsInvalidArgument()) << order << ": " << refused.ToString();
    EXPECT_TRUE(Says(refused, "none of the memory nodes that are named")) << refused.ToString();
  }
  {
    const auto db = OpenOrDie(options_, "divided");
    ExpectFilled(db.get());
  }
  EXPECT_OK(DestroyDB("divided", options_));
  for (TestNode* node : {&first_, &second_, &third}) EXPECT_EQ(node->used_bytes(), 0u);
}

// A database of one shard, and a divided one that is opened without a word of that. Fails if memory
// nodes that are named in another order give an empty database of the same name, or if one that
// does not answer keeps a database that it gets nothing of from being made.
TEST_F(ShardsTest, MemoryNodesInAnotherOrderGiveNoNamesake) {
  {
    const auto db = OpenOrDie(NoShardOptions(), "whole");
    ASSERT_OK(db->Put(WriteOptions(), "k", "v"));
  }
  { const auto db = OpenOrDie(options_, "divided"); }
  Options reordered = NoShardOptions();
  reordered.memory_nodes = second_.address() + "," + first_.address();
  Options of_another = NoShardOptions();
  of_another.compute_node_id = 1;
  for (const Options& wrong : {reordered, of_another}) {
    for (const char* const name : {"whole", "divided"}) {
      const Status refused = TryOpen(wrong, name);
      EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
      EXPECT_TRUE(Says(refused, "has its first shard on memory node " + first_.address()))
          << refused.ToString();
    }
  }
  EXPECT_EQ(DatabasesAt(second_), 1u) << "the second shard of the divided one";
  EXPECT_EQ(GetOr(OpenOrDie(NoShardOptions(), "whole").get(), "k"), "v");
  second_.Kill();
  EXPECT_OK(TryOpen(NoShardOptions(), "another"));
  EXPECT_EQ(DatabasesAt(first_), 4u) << "two shards of the divided one, and two whole ones";
}

// A shard that has no tables yet, of a database that another client made and wrote, and which it
// never closed. Fails if it is taken for what an attempt to make one has left where the first
// memory node is not named: to make that one again would destroy it.
TEST_F(ShardsTest, AnEmptyShardOfAnotherDatabaseIsLeftAlone) {
  std::atomic<bool> dead{false};
  Options dies = options_;
  dies.node_connector = std::make_shared<WatchedConnector>([&dead](uint16_t, Method, const Slice&) {
    return dead ? Status::IOError("this client has died") : Status::OK();
  });
  {
    const auto db = OpenOrDie(dies, "divided");
    Fill(db.get(), 0, 1000);
    ASSERT_OK(db->Flush(FlushOptions()));
    dead = true;
  }
  Options wrong = options_;
  wrong.memory_nodes = second_.address();
  const Status refused = TryOpen(wrong);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_TRUE(Says(refused, "none of the memory nodes that are named")) << refused.ToString();
  {
    const auto db = OpenOrDie(options_, "divided");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(500)), ValueOf(500));
    Fill(db.get());
    ExpectFilled(db.get());
  }
  EXPECT_OK(DestroyDB("divided", options_));
}

// Two databases of one name with homes of their own. Who destroys one of them finds that the other
// has no tables at a memory node, and is held up; meanwhile that one gets some there, and is
// closed. Fails if its list of them is destroyed as one that nobody uses: without it they are lost.
TEST(NamesakesTest, WhatHasComeIntoUseIsNotDestroyed) {
  constexpr uint64_t kKeys = 2000;
  const std::string value(200, 'v');
  TestNodes nodes(3, "tcp");
  Options options = nodes.With(TinyOptions());
  options.placement = TablePlacement::kRoundRobin;
  options.level0_file_num_compaction_trigger = 1000;  // No merges: flushes go to all of them.
  options.level0_stop_writes_trigger = 2000;
  ASSERT_OK(OpenOrDie(options, "db")->Close());
  Options namesake = TinyOptions();
  namesake.fabric = "tcp";
  namesake.memory_nodes = nodes[1].address();
  ASSERT_OK(OpenOrDie(namesake, "db")->Close());

  bool filled = false;
  namesake.memory_nodes += "," + nodes[2].address();
  namesake.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
        if (method != Method::kDestroyDatabase || filled) return Status::OK();
        filled = true;
        const auto db = OpenOrDie(options, "db");
        for (uint64_t i = 0; i < kKeys; ++i) {
          EXPECT_OK(db->Put(WriteOptions(), NumberedKey(i), value));
        }
        EXPECT_OK(db->Close());
        return Status::OK();
      });
  EXPECT_OK(DestroyDB("db", namesake));
  ASSERT_TRUE(filled);
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, "db", &db));
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), value) << i;
  CloseAndDestroy(&db, options, "db");
}

// Fails if a lost shard is silently made anew, or the error does not say which one it is.
TEST_F(ShardsTest, ALostShardIsAnErrorAtOpen) {
  {
    const auto db = OpenOrDie(options_, "divided");
    Fill(db.get());
  }
  second_.Restart();
  const Status status = TryOpen(options_);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Says(status, "shard 1")) << status.ToString();
  EXPECT_TRUE(Says(status, second_.address())) << status.ToString();
  EXPECT_OK(DestroyDB("divided", options_));
}

// Fails if more shards are accepted than can each have two memtables.
TEST_F(ShardsTest, TooManyShardsForTheMemoryAreRefused) {
  options_.shard_boundaries.clear();
  options_.shards = 200;
  const Status status = TryOpen(options_);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_TRUE(Says(status, "write_buffer_size")) << status.ToString();
  EXPECT_EQ(DatabasesAt(second_), 0u);
}

}  // namespace
}  // namespace dlsm
