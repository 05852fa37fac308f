// One database over several shards and memory nodes: how it is made, opened again and destroyed,
// what its shards share, and what the loss of one memory node does to the others. That it reads
// like a map, and batches and snapshots are those of one database, the model and concurrency tests
// show.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/write_batch.h"
#include "db/test_database_testing.h"
#include "db/watched_calls_testing.h"
#include "table/table_reader.h"
#include "util/random.h"
#include "util/rpc/socket.h"

namespace dlsm {
namespace {

bool Says(const Status& status, const std::string& what) {
  return status.ToString().find(what) != std::string::npos;
}

std::string Text(DB* db, const std::string& property) {
  std::string text;
  EXPECT_TRUE(db->GetProperty(property, &text)) << property;
  return text;
}

size_t LinesOf(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Shards [.., key1000), [key1000, key2000), [key2000, ..) of NumberedKey(); shards 0 and 2 on the
// first memory node, shard 1 on the second.
class ShardsTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 3000;

  void SetUp() override {
    options_ = TinyOptions();
    options_.fabric = "tcp";
    options_.memory_nodes = first_.address() + "," + second_.address();
    options_.shard_boundaries = {NumberedKey(1000), NumberedKey(2000)};
    options_.write_buffer_size = 128 << 10;
    options_.operation_timeout_ms = 3000;
    options_.open_timeout_ms = 3000;
    options_.write_stall_timeout_ms = 1000;
  }

  Options NoShardOptions() const {
    Options options = options_;
    options.shard_boundaries.clear();
    return options;
  }
  Status TryOpen(const Options& options, const std::string& name = "divided") {
    std::unique_ptr<DB> db;
    return DB::Open(options, name, &db);
  }
  static void Fill(DB* db, uint64_t from = 0, uint64_t to = kKeys) {
    for (uint64_t i = from; i < to; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), ValueOf(i)));
    }
  }
  static std::string ValueOf(uint64_t i) { return std::to_string(i) + std::string(100, '.'); }
  static void ExpectFilled(DB* db) {
    for (uint64_t i = 0; i < kKeys; i += 7) EXPECT_EQ(GetOr(db, NumberedKey(i)), ValueOf(i));
    const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
    uint64_t i = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++i) {
      ASSERT_EQ(iterator->key().ToString(), NumberedKey(i));
    }
    EXPECT_EQ(i, kKeys);
    EXPECT_OK(iterator->status());
  }
  static uint64_t DatabasesAt(TestNode& node) {
    return node.server().node().Statistics().databases;
  }

  TestNode first_;
  TestNode second_;
  Options options_;
};

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
    db->CompactRange(nullptr, nullptr);
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

// Shards with a manifest are left where a database was made by halves: up to the first shard's.
// Fails if the next attempt is refused on their account.
TEST_F(ShardsTest, WhatWasMadeByHalvesIsMadeAgain) {
  int manifests = 0;
  Options failing = options_;
  failing.node_connector =
      std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
        const bool first_shards = method == Method::kPutManifest && ++manifests == 3;
        return first_shards ? Status::IOError("the test has lost this call") : Status::OK();
      });
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

// Fails if the loss of one memory node touches the shards on the other, or goes without its name.
TEST_F(ShardsTest, ALostMemoryNodeFailsItsOwnShardsOnly) {
  auto db = OpenOrDie(options_, "divided");
  Fill(db.get());
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  second_.Kill();
  std::string value;
  const Status lost = db->Get(ReadOptions(), NumberedKey(1500), &value);
  EXPECT_FALSE(lost.ok() || lost.IsNotFound()) << lost.ToString();
  EXPECT_TRUE(Says(lost, second_.address())) << lost.ToString();
  EXPECT_EQ(GetOr(db.get(), NumberedKey(500)), ValueOf(500));
  std::vector<std::string> values;
  const std::string keys[] = {NumberedKey(1), NumberedKey(1001), NumberedKey(2001)};
  const auto statuses = db->MultiGet(ReadOptions(), {keys[0], keys[1], keys[2]}, &values);
  EXPECT_OK(statuses[0]);
  EXPECT_EQ(values[0], ValueOf(1));
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_TRUE(Says(statuses[1], second_.address())) << statuses[1].ToString();
  EXPECT_OK(statuses[2]);
  EXPECT_EQ(values[2], ValueOf(2001));
  // An iterator gets as far as the lost shard, and ends there with an error; bounds keep it off.
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  uint64_t found = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++found;
  EXPECT_EQ(found, 1000u);
  EXPECT_FALSE(iterator->status().ok());
  const std::string boundary = NumberedKey(1000);
  const Slice upper = boundary;
  ReadOptions bounded;
  bounded.iterate_upper_bound = &upper;
  iterator.reset(db->NewIterator(bounded));
  found = 0;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) ++found;
  EXPECT_EQ(found, 1000u);
  EXPECT_OK(iterator->status());
  iterator.reset();
  // Writes to the lost shard are refused once it has no more room; the others never notice, though
  // they need many flushes.
  Status refused;
  for (uint64_t i = 0; refused.ok() && i < 100000; ++i) {
    refused = db->Put(WriteOptions(), NumberedKey(1000 + i % 1000), ValueOf(i));
  }
  EXPECT_FALSE(refused.ok());
  EXPECT_TRUE(Says(refused, second_.address())) << refused.ToString();
  const uint64_t flushes = db->GetStatistics()->Get(Ticker::kFlushes);
  for (int round = 0; round < 5; ++round) {
    Fill(db.get(), 0, 1000);
    Fill(db.get(), 2000, 3000);
  }
  EXPECT_GT(db->GetStatistics()->Get(Ticker::kFlushes), flushes + 5);
  const Status flushed = db->Flush(FlushOptions());
  EXPECT_FALSE(flushed.ok());
  EXPECT_TRUE(Says(flushed, second_.address())) << flushed.ToString();
  EXPECT_TRUE(Text(db.get(), "dlsm.background-error").find(second_.address()) != std::string::npos);
  EXPECT_FALSE(db->Close().ok());
  db.reset();
  EXPECT_EQ(first_.server().node().Statistics().sessions, 0u) << "the others were closed";
}

// A memory node that takes calls and never answers holds each of them for the time-out, which is
// longer than the lease at the others. Fails if one thread keeps the house of several memory nodes:
// then the sessions at those that answer would end; or if all threads may wait for it at once.
TEST_F(ShardsTest, AMemoryNodeThatHangsHoldsNobodyElse) {
  TestNode::Config config;
  config.lease = std::chrono::milliseconds(900);
  TestNode first(config);
  options_.memory_nodes = first.address() + "," + second_.address();
  options_.operation_timeout_ms = 2000;
  options_.write_stall_timeout_ms = 10000;
  auto db = OpenOrDie(options_, "divided");
  Fill(db.get());
  ASSERT_OK(db->Flush(FlushOptions()));
  second_.Kill();
  const size_t colon = second_.address().rfind(':');
  const auto port = static_cast<uint16_t>(std::stoi(second_.address().substr(colon + 1)));
  Socket deaf;
  uint16_t bound;
  ASSERT_OK(ListenSocket("127.0.0.1", port, &deaf, &bound));
  // Something of the lost shard wants to be flushed all the time.
  for (uint64_t i = 1000; i < 1100; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), ValueOf(i)));
  }
  ASSERT_OK(db->Flush(FlushOptions{false}));
  const uint64_t flushes = db->GetStatistics()->Get(Ticker::kFlushes);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::string value;
  while (std::chrono::steady_clock::now() < until) {
    Fill(db.get(), 0, 1000);
    Fill(db.get(), 2000, 3000);
    ASSERT_OK(db->Get(ReadOptions(), NumberedKey(500), &value));
    ASSERT_OK(db->Get(ReadOptions(), NumberedKey(2500), &value));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GT(db->GetStatistics()->Get(Ticker::kFlushes), flushes + 10);
  EXPECT_EQ(first.server().node().Statistics().sessions, 2u);
  const Status lost = db->Get(ReadOptions(), NumberedKey(1500), &value);
  EXPECT_TRUE(Says(lost, second_.address())) << lost.ToString();
  EXPECT_FALSE(db->Close().ok());
  EXPECT_EQ(first.server().node().Statistics().sessions, 0u);
}

// Fails if each shard has a memtable budget of its own, or a busy shard may not use what idle ones
// leave.
TEST_F(ShardsTest, MemtablesShareOneBudget) {
  options_.shard_boundaries.clear();
  options_.shards = 8;
  options_.write_buffer_size = 256 << 10;
  options_.max_write_buffer_number = 4;
  const uint64_t budget = 4 * options_.write_buffer_size;
  const auto db = OpenOrDie(options_, "divided");
  std::atomic<bool> done{false};
  uint64_t most = 0;
  std::thread watcher([&] {
    while (!done) {
      most = std::max(most, FieldOfProperty(db.get(), "dlsm.memory", "memtables"));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), random.Bytes(8), ValueOf(static_cast<uint64_t>(i))));
  }
  EXPECT_GT(db->GetStatistics()->Get(Ticker::kFlushes), 8u);
  // All into one shard: it may fill whole memtables.
  ASSERT_OK(db->Flush(FlushOptions()));
  const uint64_t flushes = db->GetStatistics()->Get(Ticker::kFlushes);
  const uint64_t flushed = db->GetStatistics()->Get(Ticker::kFlushBytes);
  for (int i = 0; i < 20000; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(static_cast<uint64_t>(i)), ValueOf(0)));
  }
  const uint64_t more = db->GetStatistics()->Get(Ticker::kFlushes) - flushes;
  const uint64_t bytes = db->GetStatistics()->Get(Ticker::kFlushBytes) - flushed;
  ASSERT_GT(more, 0u);
  EXPECT_GT(bytes / more, options_.write_buffer_size / 3);
  done = true;
  watcher.join();
  EXPECT_LE(most, budget + budget / 4) << "of " << budget;
  EXPECT_GT(most, budget / 2);
}

// Fails if what is asked of the whole database is asked of some shards only.
TEST_F(ShardsTest, CallsCrossShards) {
  const auto db = OpenOrDie(options_, "divided");
  Fill(db.get());
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.memory", "memtables") < (64u << 10), true);
  EXPECT_GE(NumberProperty(db.get(), "dlsm.entries"), kKeys);
  db->CompactRange(nullptr, nullptr);
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 0u);
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.entries"), kKeys);
  const std::string keys[] = {NumberedKey(0), NumberedKey(500), NumberedKey(2500),
                              NumberedKey(3000)};
  const Range ranges[] = {{keys[0], keys[3]}, {keys[1], keys[2]}, {keys[3], keys[0]}};
  uint64_t sizes[3];
  db->GetApproximateSizes(ranges, 3, sizes);
  EXPECT_NEAR(static_cast<double>(sizes[1]), static_cast<double>(sizes[0]) * 2 / 3,
              static_cast<double>(sizes[0]) / 20);
  EXPECT_GT(sizes[0], kKeys * 100);
  EXPECT_EQ(sizes[2], 0u);
  for (const char* property :
       {"dlsm.stats", "dlsm.levels", "dlsm.guards", "dlsm.wire", "dlsm.rpc", "dlsm.stalls",
        "dlsm.memory-node", "dlsm.merge-load", "dlsm.merge-schedule", "dlsm.fabric",
        "dlsm.remote-cpu-micros", "dlsm.components", "dlsm.expected-components"}) {
    EXPECT_FALSE(Text(db.get(), property).empty()) << property;
  }
  const std::string nodes = Text(db.get(), "dlsm.memory-node");
  EXPECT_NE(nodes.find(first_.address()), std::string::npos);
  EXPECT_NE(nodes.find(second_.address()), std::string::npos);
  EXPECT_GT(NumberProperty(db.get(), "dlsm.metadata-bytes"), 0u);
  // Both memory nodes, or none.
  ASSERT_OK(db->SetOptions({{"memory_node_merge_scheduler", "fair"}}));
  second_.Kill();
  EXPECT_FALSE(db->SetOptions({{"memory_node_merge_scheduler", "single"}}).ok());
  EXPECT_NE(Text(db.get(), "dlsm.merge-schedule").find("memory_node_merge_scheduler fair"),
            std::string::npos);
}

// Fails if a scan keeps the buffers of each shard that it has been through, so that a long one
// takes memory that nobody has granted; or if it cannot come back into one that it has left.
TEST_F(ShardsTest, AScanHoldsTheBuffersOfOneShard) {
  constexpr uint64_t kShards = 8;
  constexpr uint64_t kKeysOfEach = 300;
  options_.shard_boundaries.clear();
  for (uint64_t i = 1; i < kShards; ++i) {
    options_.shard_boundaries.push_back(NumberedKey(i * kKeysOfEach));
  }
  options_.write_buffer_size = 1 << 20;
  options_.max_file_size = 8 << 20;
  options_.memory_budget = 64 << 20;
  options_.write_stall_timeout_ms = options_.operation_timeout_ms = 60'000;
  const auto db = OpenOrDie(options_, "divided");
  for (uint64_t i = 0; i < kShards * kKeysOfEach; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), std::string(3000, 'v')));
  }
  db->CompactRange(nullptr, nullptr);
  ASSERT_OK(db->WaitForBackgroundWork());
  const auto buffers = [&] { return FieldOfProperty(db.get(), "dlsm.memory", "buffers"); };
  const uint64_t before = buffers();
  const auto more_than_before = [&] { return std::max(buffers(), before) - before; };
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  std::vector<uint64_t> held;  // At the end of each shard.
  uint64_t i = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++i) {
    ASSERT_EQ(iterator->key().ToString(), NumberedKey(i));
    if (i % kKeysOfEach == kKeysOfEach - 1) held.push_back(more_than_before());
  }
  ASSERT_EQ(i, kShards * kKeysOfEach);
  // Of one shard: a window and a spare one, each up to that of a long scan.
  const uint64_t of_one_shard = 2 * uint64_t{TableReadOptions().prefetch_bytes_max};
  EXPECT_GT(*std::ranges::max_element(held), 0u);
  EXPECT_LE(*std::ranges::max_element(held), of_one_shard);
  held.clear();
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
    ASSERT_EQ(iterator->key().ToString(), NumberedKey(--i));
    if (i % kKeysOfEach == 0) held.push_back(more_than_before());
  }
  ASSERT_EQ(i, 0u);
  ASSERT_OK(iterator->status());
  EXPECT_LE(*std::ranges::max_element(held), of_one_shard);
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

// Fails if each of many shards' memtables gets the filter of one that has all memory for itself,
// because the options do not name the boundaries: with their number alone, or with nothing when the
// database is opened again.
TEST(ManyShardsTest, EachMemtableHasTheFilterOfItsShare) {
  constexpr uint64_t kShards = 64;
  TestNode node;
  Options options = node.With(Options(), "shm");
  options.create_if_missing = true;
  const auto filter_bytes = [&options] {
    const auto db = OpenOrDie(options, "many");
    return FieldOfProperty(db.get(), "dlsm.memory", "memtable-filters");
  };
  const uint64_t undivided = [&options] {
    const auto db = OpenOrDie(options, "one");
    return FieldOfProperty(db.get(), "dlsm.memory", "memtable-filters");
  }();
  ASSERT_GT(undivided, 0u);
  // Four memtables of a share each: what one shard of the database may have, about.
  const uint64_t most = kShards * (undivided / kShards * 4 + 64);
  options.shards = kShards;
  EXPECT_LE(filter_bytes(), most);
  options.shards = Options().shards;
  EXPECT_LE(filter_bytes(), most);
  EXPECT_GT(filter_bytes(), undivided / 2);
}

}  // namespace
}  // namespace dlsm
