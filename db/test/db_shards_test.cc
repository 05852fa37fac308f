// One database over several shards and memory nodes: what its shards share, and what the loss of
// one memory node does to the others. That it reads like a map, and batches and snapshots are those
// of one database, the model and concurrency tests show.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/test/shards_testing.h"
#include "db/test/test_database_testing.h"
#include "table/table_reader.h"
#include "util/random.h"
#include "util/rpc/auth/socket.h"

namespace dlsm {
namespace {

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

// What keys have in common a memtable hands on to the next one, which has no entry yet. Fails if
// that counts as something to be flushed: its shard's writers would wait for that flush, and
// nothing would ever be flushed. A single key has all of itself in common.
TEST_F(ShardsTest, NobodyWaitsForTheFlushOfAnEmptyMemtable) {
  options_.write_stall_timeout_ms = 10'000;
  const auto db = OpenOrDie(options_, "divided");
  const std::string long_key(kKeyBytesMax, 'z');  // More than all memtables may have.
  ASSERT_GT(long_key.size(),
            options_.write_buffer_size * static_cast<size_t>(options_.max_write_buffer_number));
  ASSERT_OK(db->Put(WriteOptions(), long_key, "long"));
  ASSERT_OK(db->Flush(FlushOptions()));
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(2000 + i), ValueOf(i))) << i;
  }
  EXPECT_EQ(GetOr(db.get(), long_key), "long");
  EXPECT_EQ(GetOr(db.get(), NumberedKey(2009)), ValueOf(9));
}

// Fails if who asks for merges does not hear that those of a shard have failed, and of which; or if
// the shards behind it are left as they are.
TEST_F(ShardsTest, CompactRangeTellsWhichShardHasFailedAndMergesTheOthers) {
  options_.compaction_style = CompactionStyle::kLeveled;
  // Nothing is merged but by request.
  options_.level0_file_num_compaction_trigger = 500;
  options_.level0_stop_writes_trigger = 1000;
  options_.idle_size_amplification_percent = 0;
  const auto db = OpenOrDie(options_, "divided");
  for (int round = 0; round < 2; ++round) {
    Fill(db.get());
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  ASSERT_EQ(NumberProperty(db.get(), "dlsm.entries"), 2 * kKeys);
  second_.Kill();
  const Status failed = db->CompactRange(nullptr, nullptr);
  EXPECT_FALSE(failed.ok());
  EXPECT_TRUE(Says(failed, "shard 1 on memory node")) << failed.ToString();
  EXPECT_TRUE(Says(failed, second_.address())) << failed.ToString();
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.entries"), kKeys + 1000) << "shard 1 has each key twice";
  EXPECT_FALSE(db->Close().ok());
}

// Fails if what is asked of the whole database is asked of some shards only.
TEST_F(ShardsTest, CallsCrossShards) {
  const auto db = OpenOrDie(options_, "divided");
  Fill(db.get());
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.memory", "memtables") < (64u << 10), true);
  EXPECT_GE(NumberProperty(db.get(), "dlsm.entries"), kKeys);
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
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
  std::string micros;
  EXPECT_FALSE(db->GetProperty("dlsm.remote-cpu-micros", &micros)) << "the sum would shrink";
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
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
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
