// Whole databases whose tables are spread over several memory nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/test/test_database_testing.h"
#include "util/random.h"
#include "util/rpc/auth/socket.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr uint64_t kPlacedKeys = 3000;

Options PlacedOptions(TablePlacement placement = TablePlacement::kPowerOfD) {
  Options options = TinyOptions();
  options.placement = placement;
  return options;
}

void Fill(DB* db, uint64_t begin = 0, uint64_t end = kPlacedKeys) {
  for (uint64_t i = begin; i < end; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 200)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
}

void ExpectAll(DB* db, uint64_t end = kPlacedKeys) {
  const std::unique_ptr<Iterator> walk(db->NewIterator(ReadOptions()));
  uint64_t i = 0;
  for (walk->SeekToFirst(); walk->Valid(); walk->Next(), ++i) {
    ASSERT_EQ(walk->key().ToString(), NumberedKey(i));
    ASSERT_EQ(walk->value().ToString(), NumberedValue(i, 200));
    if (i % 7 == 0) {
      ASSERT_EQ(GetOr(db, NumberedKey(i)), NumberedValue(i, 200));
    }
  }
  ASSERT_OK(walk->status());
  ASSERT_EQ(i, end);
}

struct AtNode {
  uint64_t tables = 0;
  uint64_t bytes = 0;
};

// By the property dlsm.placement, in the order of memory nodes.
std::vector<AtNode> PlacementOf(DB* db) {
  std::string text;
  EXPECT_TRUE(db->GetProperty("dlsm.placement", &text));
  std::vector<AtNode> nodes;
  for (size_t line = text.find('\n'); line != std::string::npos; line = text.find('\n', line + 1)) {
    unsigned number;
    unsigned long tables;
    unsigned long bytes;
    if (std::sscanf(text.c_str() + line, "%u %lu %lu", &number, &tables, &bytes) == 3) {
      nodes.push_back({tables, bytes});
    }
  }
  return nodes;
}

double MaxToMean(DB* db) {
  std::string text;
  EXPECT_TRUE(db->GetProperty("dlsm.placement", &text));
  const size_t at = text.find("max/mean ");
  EXPECT_NE(at, std::string::npos) << text;
  return std::atof(text.c_str() + at + 9);
}

void ExpectNothingLeft(TestNodes* nodes) {
  for (size_t i = 0; i < nodes->size(); ++i) {
    TestNode& node = (*nodes)[i];
    EXPECT_EQ(node.used_bytes(), 0u) << "memory node " << i;
    EXPECT_OK(node.server().node().databases().CheckInvariants());
    EXPECT_TRUE(node.server().node().databases().List().databases.empty()) << i;
  }
}

// Fails if a memory node gets no tables, or keeps what it had once the database is destroyed.
TEST(DbPlacementTest, TablesAreOnAllMemoryNodes) {
  for (const auto placement : {TablePlacement::kRoundRobin, TablePlacement::kPowerOfD}) {
    for (const char* fabric : {"shm", "tcp"}) {
      SCOPED_TRACE(fabric);
      TestNodes nodes(3, fabric);
      const Options options = nodes.With(PlacedOptions(placement));
      auto db = OpenOrDie(options, "db");
      Fill(db.get());
      for (const AtNode& node : PlacementOf(db.get())) EXPECT_GT(node.tables, 0u);
      ExpectAll(db.get());
      ASSERT_OK(db->Close());
      db = OpenOrDie(options, "db");
      ExpectAll(db.get());
      CloseAndDestroy(&db, options, "db");
      ExpectNothingLeft(&nodes);
    }
  }
}

// Fails if what is overwritten stays taken on a memory node that is not the home: over the rounds
// they would fill up.
TEST(DbPlacementTest, RoundsOfOverwritingLeaveNothing) {
  for (const CompactionPlace place :
       {CompactionPlace::kMemoryNode, CompactionPlace::kComputeNode, CompactionPlace::kAutomatic}) {
    TestNodes nodes(3, "tcp");
    Options options = nodes.With(PlacedOptions());
    options.compaction_place = place;
    options.scatter_width = 2;
    auto db = OpenOrDie(options, "db");
    for (int round = 0; round < 10; ++round) Fill(db.get(), 0, 1000);
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->WaitForBackgroundWork());
    ExpectAll(db.get(), 1000);
    // Grants that are not used up, and the reserve, are in the pool.
    const uint64_t pool = 16 * options.write_buffer_size + 8 * options.write_buffer_size;
    const std::vector<AtNode> at = PlacementOf(db.get());
    for (size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_LE(nodes[i].used_bytes(), at[i].bytes + 64 * at[i].tables + pool) << i;
      EXPECT_OK(nodes[i].server().node().databases().CheckInvariants());
    }
    ASSERT_OK(db->Close());
    uint64_t used = 0;
    for (size_t i = 0; i < nodes.size(); ++i) used += nodes[i].used_bytes();
    db = OpenOrDie(options, "db");
    EXPECT_EQ(used, [&] {
      uint64_t bytes = 0;
      for (const AtNode& each : PlacementOf(db.get())) bytes += (each.bytes + 63) / 64 * 64;
      return std::max<uint64_t>(bytes, used);  // Padding is by table.
    }());
    CloseAndDestroy(&db, options, "db");
    ExpectNothingLeft(&nodes);
  }
}

// Fails if a handle that takes the database over becomes the owner at the home alone: the other
// memory nodes would give it no memory, and end its sessions after a lease.
TEST(DbPlacementTest, IsTakenOverOnAllMemoryNodes) {
  TestNodes nodes(3, "tcp");
  Options options = nodes.With(PlacedOptions(TablePlacement::kRoundRobin));
  auto former = OpenOrDie(options, "db");
  Fill(former.get(), 0, 500);
  options.take_over = true;
  auto db = OpenOrDie(options, "db");
  Fill(db.get());
  for (const AtNode& node : PlacementOf(db.get())) EXPECT_GT(node.tables, 0u);
  ExpectAll(db.get());
  former->Put(WriteOptions(), "key", "value").PermitUncheckedError();
  EXPECT_FALSE(former->Flush(FlushOptions()).ok());
  former->Close().PermitUncheckedError();
  CloseAndDestroy(&db, options, "db");
  ExpectNothingLeft(&nodes);
}

// Fails if fragments of a flush share a memory node, or a flush is not cut.
TEST(DbPlacementTest, FlushesAreScattered) {
  TestNodes nodes(4, "shm");
  Options options = nodes.With(PlacedOptions());
  options.scatter_width = 4;
  options.write_buffer_size = 1 << 20;
  auto db = OpenOrDie(options, "db");
  Fill(db.get(), 0, 2000);
  const std::vector<AtNode> at = PlacementOf(db.get());
  for (const AtNode& node : at) EXPECT_EQ(node.tables, 1u);
  EXPECT_LT(MaxToMean(db.get()), 1.5);
  ExpectAll(db.get(), 2000);
  CloseAndDestroy(&db, options, "db");
  ExpectNothingLeft(&nodes);
}

// Fails if a database cannot be opened with another placement or more memory nodes than before, is
// opened though some of its tables cannot be reached, or new tables stay where the old ones are.
TEST(DbPlacementTest, OpensWithAnotherPlacement) {
  TestNodes nodes(3, "shm");
  auto db = OpenOrDie(nodes.With(TinyOptions(), 1), "db");
  Fill(db.get(), 0, 1000);
  ASSERT_OK(db->Close());
  const Options placed = nodes.With(PlacedOptions(TablePlacement::kRoundRobin));
  db = OpenOrDie(placed, "db");
  EXPECT_EQ(PlacementOf(db.get())[1].tables, 0u);
  Fill(db.get(), 1000, 2000);
  EXPECT_GT(PlacementOf(db.get())[1].tables, 0u);
  EXPECT_GT(PlacementOf(db.get())[2].tables, 0u);
  ExpectAll(db.get(), 2000);
  ASSERT_OK(db->Close());
  const Status missing = DB::Open(nodes.With(PlacedOptions(), 2), "db", &db);
  EXPECT_TRUE(missing.IsInvalidArgument()) << missing.ToString();
  EXPECT_THAT(missing.ToString(), HasSubstr(nodes[2].address()));
  // By shard again: what is elsewhere stays there until it is merged.
  const Options by_shard = nodes.With(TinyOptions());
  db = OpenOrDie(by_shard, "db");
  ExpectAll(db.get(), 2000);
  Fill(db.get(), 2000, 3000);
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  ASSERT_OK(db->WaitForBackgroundWork());
  ExpectAll(db.get(), 3000);
  EXPECT_GT(PlacementOf(db.get())[0].tables, 0u);
  CloseAndDestroy(&db, by_shard, "db");
  ExpectNothingLeft(&nodes);
}

// Memory nodes that are named in another order, or without the home, give a database that does not
// exist. Fails if making, or destroying, that one takes the tables of the one that does; or if what
// a lost home has left cannot be removed.
TEST(DbPlacementTest, MemoryNodesInAnotherOrderHarmNothing) {
  TestNodes nodes(3, "tcp");
  const Options options = nodes.With(PlacedOptions(TablePlacement::kRoundRobin));
  auto db = OpenOrDie(options, "db");
  Fill(db.get());
  ASSERT_OK(db->Close());
  const std::string a = nodes[0].address(), b = nodes[1].address(), c = nodes[2].address();
  Options wrong = options;
  wrong.memory_nodes = b + "," + a + "," + c;
  for (const Status& refused : {DB::Open(wrong, "db", &db), DestroyDB("db", wrong)}) {
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
    EXPECT_THAT(refused.ToString(), HasSubstr("has its first shard on memory node " + a));
  }
  wrong.memory_nodes = b + "," + c;
  const Status refused = DB::Open(wrong, "db", &db);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("none of the memory nodes that are named"));
  EXPECT_THAT(refused.ToString(), HasSubstr("DestroyDB"));
  db = OpenOrDie(options, "db");
  ExpectAll(db.get());
  ASSERT_OK(db->Close());
  nodes[0].Restart();
  EXPECT_TRUE(DB::Open(options, "db", &db).IsInvalidArgument());
  EXPECT_OK(DestroyDB("db", options));
  db = OpenOrDie(options, "db");
  CloseAndDestroy(&db, options, "db");
  ExpectNothingLeft(&nodes);
}

// Two databases of one name with homes of their own. Fails if one takes the other's tables for what
// it has left itself when it is given the other's memory nodes, or when it is destroyed.
TEST(DbPlacementTest, TablesOfANamesakeAreLeftAlone) {
  TestNodes nodes(3, "tcp");
  const Options options = nodes.With(PlacedOptions(TablePlacement::kRoundRobin));
  auto db = OpenOrDie(options, "db");
  Fill(db.get());
  ASSERT_OK(db->Close());
  Options other = TinyOptions();
  other.fabric = "tcp";
  other.memory_nodes = nodes[1].address();
  db = OpenOrDie(other, "db");
  Fill(db.get(), 0, 100);
  ASSERT_OK(db->Close());
  Options placed = other;
  placed.placement = TablePlacement::kRoundRobin;
  placed.memory_nodes = nodes[1].address() + "," + nodes[2].address();
  const Status refused = DB::Open(placed, "db", &db);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr(nodes[2].address()));
  EXPECT_OK(DestroyDB("db", placed));
  db = OpenOrDie(options, "db");
  ExpectAll(db.get());
  CloseAndDestroy(&db, options, "db");
  ExpectNothingLeft(&nodes);
}

// Fails if two memory nodes of one number are taken for one.
TEST(DbPlacementTest, MemoryNodesNeedNumbersOfTheirOwn) {
  TestNode one;
  TestNode two;
  Options options = PlacedOptions();
  options.memory_nodes = one.address() + "," + two.address();
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options, "db", &db);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr(one.address()));
  EXPECT_THAT(status.ToString(), HasSubstr(two.address()));
  EXPECT_THAT(status.ToString(), HasSubstr("NODEID"));
  EXPECT_EQ(one.used_bytes() + two.used_bytes(), 0u);
}

// Fails if options that cannot be are accepted, or a user's database could be taken for tables of
// another one.
TEST(DbPlacementTest, RefusesWhatCannotBe) {
  std::unique_ptr<DB> db;
  Options options = PlacedOptions();
  options.power_of_d = 0;
  EXPECT_TRUE(DB::Open(options, "db", &db).IsInvalidArgument());
  options = PlacedOptions();
  options.scatter_width = 65;
  EXPECT_TRUE(DB::Open(options, "db", &db).IsInvalidArgument());
  options = TinyOptions();
  options.scatter_width = 2;
  EXPECT_TRUE(DB::Open(options, "db", &db).IsInvalidArgument());
  EXPECT_TRUE(DB::Open(PlacedOptions(), "db#tables-of-shard-0", &db).IsInvalidArgument());
  // The embedded memory node is one of them.
  db = OpenOrDie(PlacedOptions(), "embedded placed");
  Fill(db.get(), 0, 500);
  ExpectAll(db.get(), 500);
  CloseAndDestroy(&db, PlacedOptions(), "embedded placed");
}

// Fails if a write is refused while a memory node has room, or waits for ever when none has; or if
// what was accepted is lost.
TEST(DbPlacementTest, FullMemoryNodesArePassedOver) {
  for (const auto placement : {TablePlacement::kRoundRobin, TablePlacement::kPowerOfD}) {
    std::vector<TestNode::Config> configs(3);
    configs[0].bytes = configs[2].bytes = uint64_t{24} << 20;
    configs[1].bytes = uint64_t{6} << 20;
    TestNodes nodes(configs, "shm");
    Options options = nodes.With(PlacedOptions(placement));
    options.write_stall_timeout_ms = 3000;
    auto db = OpenOrDie(options, "db");
    const std::string value(1000, 'v');
    uint64_t i = 0;
    Status status;
    for (; status.ok() && i < 100000; ++i) {
      status = db->Put(WriteOptions(), NumberedKey(i), value);
    }
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
    // Of 54 MB, merges keep some back and need some, and so do reserves.
    EXPECT_GT(i, 22000u);
    EXPECT_GT(db->GetStatistics()->Get(Ticker::kTablesElsewhere) +
                  (placement == TablePlacement::kPowerOfD ? 1 : 0),
              0u);
    for (uint64_t key = 0; key + 1 < i; key += 500) {
      ASSERT_EQ(GetOr(db.get(), NumberedKey(key)), value) << key;
    }
    const Status closed = db->Close();  // The last memtables may not fit.
    EXPECT_TRUE(closed.ok() || closed.IsBusy()) << closed.ToString();
    EXPECT_OK(DestroyDB("db", options));
    ExpectNothingLeft(&nodes);
  }
}

// Fails if a memory node that dies keeps others' tables from being written, makes a call hang or
// answer wrongly, or keeps the handle from being closed.
TEST(DbPlacementTest, AMemoryNodeThatDiesTakesOnlyItsTables) {
  for (const char* fabric : {"shm", "tcp"}) {
    SCOPED_TRACE(fabric);
    TestNodes nodes(3, fabric);
    Options options = nodes.With(PlacedOptions(TablePlacement::kRoundRobin));
    options.operation_timeout_ms = 1000;
    options.write_stall_timeout_ms = 3000;
    options.level0_file_num_compaction_trigger = 1000;  // No merges: flushes alone.
    options.level0_stop_writes_trigger = 2000;
    auto db = OpenOrDie(options, "db");
    Fill(db.get(), 0, 1000);
    ExpectAll(db.get(), 1000);
    nodes[1].Kill();
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t i = 1000; i < 2000; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 200))) << i;
    }
    // The first of its flushes may fail, and is tried again.
    Status flushed = db->Flush(FlushOptions());
    for (int i = 0; i < 5 && !flushed.ok(); ++i) flushed = db->Flush(FlushOptions());
    EXPECT_OK(flushed);
    int errors = 0;
    for (uint64_t i = 0; i < 2000; i += 10) {
      std::string value;
      const Status status = db->Get(ReadOptions(), NumberedKey(i), &value);
      EXPECT_FALSE(status.IsNotFound()) << i;
      if (status.ok()) {
        EXPECT_EQ(value, NumberedValue(i, 200));
      } else {
        ++errors;
      }
      if (i >= 1000) {
        EXPECT_OK(status);
      }
    }
    if (std::string(fabric) == "tcp") {
      EXPECT_GT(errors, 0);  // Over shm its memory stays mapped.
    }
    std::string text = "OK";  // Until the next heartbeat.
    while (text == "OK" && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
      ASSERT_TRUE(db->GetProperty("dlsm.background-error", &text));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_NE(text, "OK");
    db->Close().PermitUncheckedError();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
    std::unique_ptr<DB> again;
    options.open_timeout_ms = 500;
    EXPECT_FALSE(DB::Open(options, "db", &again).ok());
    nodes[1].Restart();
    options.open_timeout_ms = 10000;
    const Status lost = DB::Open(options, "db", &again);
    EXPECT_TRUE(lost.IsIOError()) << lost.ToString();
    EXPECT_THAT(lost.ToString(), HasSubstr("memory is lost"));
    EXPECT_OK(DestroyDB("db", options));
    ExpectNothingLeft(&nodes);
  }
}

// A home that takes calls and never answers holds each of them for the time-out, which is longer
// than the leases at the others; flushes go on failing, and what they have written to the others is
// given back. Fails if that has the house threads of memory nodes that answer wait for the home:
// then the sessions there end.
TEST(DbPlacementTest, AHomeThatHangsEndsNoOtherSessions) {
  std::vector<TestNode::Config> configs(3);
  for (TestNode::Config& config : configs) config.lease = std::chrono::milliseconds(900);
  TestNodes nodes(configs, "tcp");
  Options options = nodes.With(PlacedOptions(TablePlacement::kRoundRobin));
  options.operation_timeout_ms = 2000;
  options.write_stall_timeout_ms = 2000;
  options.level0_file_num_compaction_trigger = 1000;  // No merges: flushes alone.
  options.level0_stop_writes_trigger = 2000;
  auto db = OpenOrDie(options, "db");
  Fill(db.get(), 0, 1000);
  const std::string address = nodes[0].address();
  nodes[0].Kill();
  Socket deaf;
  uint16_t bound;
  ASSERT_OK(ListenSocket("127.0.0.1",
                         static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))),
                         &deaf, &bound));
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 200)));
  }
  ASSERT_OK(db->Flush(FlushOptions{false}));
  const auto sessions_at = [&](size_t node) {
    return nodes[node].server().node().Statistics().sessions;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_EQ(sessions_at(1), 1u);
    ASSERT_EQ(sessions_at(2), 1u);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_FALSE(db->Close().ok());
  EXPECT_EQ(sessions_at(1), 0u);
  EXPECT_EQ(sessions_at(2), 0u);
}

// Fails if tables are unevenly spread, whatever is written. With more tables to a memory node than
// here, power of d stays below 1.1; at this size one merge may have a tenth of what a node has, and
// two of them may come together.
TEST(DbPlacementTest, PowerOfDBalances) {
  for (const bool skewed : {false, true}) {
    TestNodes nodes(4, "shm");
    Options options = nodes.With(PlacedOptions());
    options.compaction_style = CompactionStyle::kGuards;
    options.write_buffer_size = 256 << 10;
    options.max_file_size = 256 << 10;
    auto db = OpenOrDie(options, "db");
    Random random(3);
    for (uint64_t i = 0; i < 80000; ++i) {
      const uint64_t key = skewed ? random.Uniform(1 + random.Uniform(1 + random.Uniform(40000)))
                                  : random.Uniform(40000);
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(key), std::string(800, 'v')));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->WaitForBackgroundWork());
    EXPECT_LE(MaxToMean(db.get()), 1.4) << (skewed ? "skewed" : "uniform");
    CloseAndDestroy(&db, options, "db");
    ExpectNothingLeft(&nodes);
  }
}

}  // namespace
}  // namespace dlsm
