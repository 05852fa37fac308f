// With which names and options databases are opened, and how those that cannot work are refused.
#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/statistics.h"
#include "db/handle/open_testing.h"
#include "db/test/test_database_testing.h"
#include "util/temporary_file_testing.h"

namespace dlsm {
namespace {

// Fails if options that Open refuses are looked at by DestroyDB as if they had been checked.
TEST_F(OpenTest, DestroyChecksOptionsAsOpenDoes) {
  Options options = NodeOptions();
  options.comparator = nullptr;
  options.compute_boundaries = {"a", "b"};
  const Status refused = DestroyDB("db", options);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_TRUE(Says(refused, "comparator"));
}

// Fails if a name is accepted that a memory node refuses, for its parts have longer ones.
TEST_F(OpenTest, NamesOfPartsFit) {
  Options options = NodeOptions();
  for (uint64_t i = 1; i <= 4096; ++i) options.compute_boundaries.push_back(NumberedKey(i));
  options.compute_node_id = 4095;
  options.shards = 11;
  options.write_buffer_size = 1 << 20;
  const std::string longest(960, 'n');
  EXPECT_OK(TryOpen(options, longest));
  EXPECT_OK(DestroyDB(longest, options));
  const Status refused = TryOpen(options, longest + "n");
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_TRUE(Says(refused, "960"));
}

// Fails if a database can have a name that makes it part of another one to memory nodes: that one's
// clients could use it, and its quota count for both.
TEST_F(OpenTest, NamesOfPartsAreRefused) {
  for (const char* name : {"orders#eu", "#", "orders#shard-1", "orders#tables-of-shard-0",
                           "orders#range-1", "orders#"}) {
    const Status status = TryOpen(NodeOptions(), name);
    EXPECT_TRUE(status.IsInvalidArgument()) << name << ": " << status.ToString();
    EXPECT_TRUE(Says(status, "use one without"));
    EXPECT_TRUE(DestroyDB(name, NodeOptions()).IsInvalidArgument()) << name;
    std::unique_ptr<DB> follower;
    EXPECT_TRUE(DB::OpenFollower(NodeOptions(), name, &follower).IsInvalidArgument()) << name;
  }
}

// Fails if an option that cannot work is accepted, or refused without being named.
TEST_F(OpenTest, EachBadOptionIsNamed) {
  const struct {
    const char* names;
    std::function<void(Options*)> spoil;
  } cases[] = {
      {"comparator", [](Options* o) { o->comparator = nullptr; }},
      {"write_buffer_size", [](Options* o) { o->write_buffer_size = 1; }},
      {"write_buffer_size", [](Options* o) { o->write_buffer_size = (size_t{1} << 40) + 1; }},
      // Four of them wrap around to nothing, and fit into any budget.
      {"write_buffer_size",
       [](Options* o) {
         o->write_buffer_size = size_t{1} << 62;
         o->max_write_buffer_number = 4;
         o->memory_budget = uint64_t{1} << 30;
       }},
      {"max_write_buffer_number", [](Options* o) { o->max_write_buffer_number = 1; }},
      {"max_write_buffer_number", [](Options* o) { o->max_write_buffer_number = 1000; }},
      {"merge_scheduler", [](Options* o) { o->merge_scheduler = static_cast<MergeSchedule>(9); }},
      {"max_file_size", [](Options* o) { o->max_file_size = 0; }},
      {"max_file_size", [](Options* o) { o->max_file_size = size_t{1} << 40; }},
      {"block_size", [](Options* o) { o->block_size = 0; }},
      {"block_restart_interval", [](Options* o) { o->block_restart_interval = 0; }},
      {"block_restart_interval", [](Options* o) { o->block_restart_interval = INT_MAX; }},
      {"compression", [](Options* o) { o->compression = static_cast<CompressionType>(7); }},
      {"table_format", [](Options* o) { o->compression = kSnappyCompression; }},
      {"table_format", [](Options* o) { o->table_format = static_cast<TableFormat>(9); }},
      {"compaction_place",
       [](Options* o) { o->compaction_place = static_cast<CompactionPlace>(9); }},
      {"background", [](Options* o) { o->max_background_flushes = 0; }},
      {"background", [](Options* o) { o->max_background_compactions = -1; }},
      {"background", [](Options* o) { o->max_subcompactions = 0; }},
      {"num_levels", [](Options* o) { o->num_levels = 1; }},
      {"level0", [](Options* o) { o->level0_file_num_compaction_trigger = 0; }},
      {"level0", [](Options* o) { o->level0_stop_writes_trigger = 1; }},
      {"level0_stop_writes_trigger",
       [](Options* o) { o->level0_stop_writes_trigger = o->level0_file_num_compaction_trigger; }},
      {"compaction_style",
       [](Options* o) { o->compaction_style = static_cast<CompactionStyle>(9); }},
      {"max_tables_per_guard", [](Options* o) { o->max_tables_per_guard = 1; }},
      {"max_tables_per_guard", [](Options* o) { o->max_tables_per_guard = 1001; }},
      {"guard_bits", [](Options* o) { o->guard_bits = -1; }},
      {"guard_bits", [](Options* o) { o->guard_bits = 49; }},
      {"max_size_amplification_percent", [](Options* o) { o->max_size_amplification_percent = 0; }},
      {"max_size_amplification_percent",
       [](Options* o) { o->max_size_amplification_percent = 10001; }},
      {"idle_size_amplification_percent",
       [](Options* o) { o->idle_size_amplification_percent = -1; }},
      {"component_constraint",
       [](Options* o) { o->component_constraint = static_cast<ComponentConstraint>(9); }},
      {"max_components", [](Options* o) { o->max_components = -1; }},
      {"placement", [](Options* o) { o->placement = static_cast<TablePlacement>(9); }},
      {"power_of_d", [](Options* o) { o->power_of_d = 1025; }},
      {"scatter_width", [](Options* o) { o->scatter_width = 0; }},
      {"value_cache_size", [](Options* o) { o->value_cache_size = (uint64_t{16} << 40) + 1; }},
      {"tcp_poll_us", [](Options* o) { o->tcp_poll_us = 1'000'001; }},
      {"max_bytes_for_level", [](Options* o) { o->max_bytes_for_level_base = 0; }},
      {"max_bytes_for_level", [](Options* o) { o->max_bytes_for_level_multiplier = 0; }},
      {"max_bytes_for_level", [](Options* o) { o->max_bytes_for_level_multiplier = NAN; }},
      {"kTiered",
       [](Options* o) {
         o->compaction_style = CompactionStyle::kTiered;
         o->max_bytes_for_level_multiplier = 1.5;
       }},
      {"kTiered",
       [](Options* o) {
         o->compaction_style = CompactionStyle::kTiered;
         o->max_bytes_for_level_multiplier = 1001;
       }},
      {"fabric", [](Options* o) { o->fabric = "pigeon"; }},
      {"fabric", [](Options* o) { o->fabric = "local"; }},
      {"config", [](Options* o) { o->config = "/nonexistent"; }},
      // With one more than a manifest may name the database could not be opened again.
      {"1025 memory nodes",
       [](Options* o) {
         o->placement = TablePlacement::kRoundRobin;
         for (int port = 1; port <= 1024; ++port) {
           o->memory_nodes += ",127.0.0.1:" + std::to_string(port);
         }
       }},
  };
  for (const auto& test : cases) {
    Options options = NodeOptions();
    test.spoil(&options);
    const Status status = TryOpen(options);
    EXPECT_TRUE(status.IsInvalidArgument()) << test.names << ": " << status.ToString();
    EXPECT_TRUE(Says(status, test.names));
  }
  EXPECT_EQ(node_.server().node().Statistics().databases, 0u);
  EXPECT_TRUE(TryOpen(NodeOptions(), "").IsInvalidArgument());
  EXPECT_TRUE(TryOpen(NodeOptions(), std::string(5000, 'n')).IsInvalidArgument());
}

// Fails if a fabric that does not exist is said to need a memory node, or one that needs it is
// taken without.
TEST_F(OpenTest, WithoutMemoryNodesEachBadFabricIsToldItsCause) {
  Options options = TinyOptions();
  options.fabric = "pigeon";
  const Status unknown = TryOpen(options);
  EXPECT_TRUE(unknown.IsInvalidArgument());
  EXPECT_TRUE(Says(unknown, "known are local, shm, tcp and verbs"));
  options.fabric = "tcp";
  const Status lonely = TryOpen(options);
  EXPECT_TRUE(lonely.IsInvalidArgument());
  EXPECT_TRUE(Says(lonely, "needs a memory node"));
}

class NamedComparator final : public Comparator {
 public:
  explicit NamedComparator(const char* name) : name_(name) {}
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return name_; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  const char* const name_;
};

class NamedFilter final : public FilterPolicy {
 public:
  explicit NamedFilter(const char* name) : name_(name) {}
  const char* Name() const override { return name_; }
  void CreateFilter(const Slice*, int, std::string*) const override {}
  bool KeyMayMatch(const Slice&, const Slice&) const override { return true; }

 private:
  const char* const name_;
};

// Fails if a database in an order of the user's passes for one in that of the library, and is read
// in that by whoever opens it next; or its filters for those that the library reads.
TEST_F(OpenTest, NamesOfTheLibraryAreRefused) {
  for (const char* name : {"dlsm.BytewiseComparator", "dlsm.BlockedBloomFilter", "dlsm.mine"}) {
    const NamedComparator order(name);
    const NamedFilter filter(name);
    Options options = NodeOptions();
    options.comparator = &order;
    Status refused = TryOpen(options);
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
    EXPECT_TRUE(Says(refused, "comparator") && Says(refused, name)) << refused.ToString();
    options = NodeOptions();
    options.filter_policy = &filter;
    refused = TryOpen(options);
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
    EXPECT_TRUE(Says(refused, "filter_policy") && Says(refused, name)) << refused.ToString();
  }
  const NamedComparator order("mine.dlsm.Order");
  const NamedFilter filter("dlsm");
  const std::unique_ptr<const FilterPolicy> built_in(NewBloomFilterPolicy(7));
  Options options = NodeOptions();
  options.comparator = &order;
  options.filter_policy = &filter;
  EXPECT_OK(TryOpen(options, "own"));
  options = NodeOptions();
  options.comparator = ReverseBytewiseComparator();
  options.filter_policy = built_in.get();
  EXPECT_OK(TryOpen(options, "reverse"));
  options.filter_policy = Options::kNoFilter;
  EXPECT_OK(TryOpen(options, "unfiltered"));
}

// Fails if a product of the largest memtables there may be wraps around: where it is a limit, it
// would be a low one.
TEST_F(OpenTest, OpensWithTheLargestMemtables) {
  Options options = NodeOptions();
  options.write_buffer_size = size_t{1} << 40;
  options.max_write_buffer_number = 128;
  options.level0_file_num_compaction_trigger = INT_MAX - 1;
  options.level0_stop_writes_trigger = INT_MAX;
  options.memory_budget = uint64_t{1} << 46;
  EXPECT_TRUE(Says(TryOpen(options), "memory_budget"));
  options.memory_budget = 0;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, "db", &db));
  ASSERT_OK(db->Put(WriteOptions(), "k", "v"));
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(GetOr(db.get(), "k"), "v");
  EXPECT_OK(db->Close());
}

// Fails if memory nodes refuse merges of a database that could be opened with its options, so that
// writes stop for ever once there are as many tables as may wait.
TEST_F(OpenTest, MemoryNodesMergeWithTheLargestRestartInterval) {
  Options options = NodeOptions();
  options.table_format = TableFormat::kBlockBased;
  options.block_restart_interval = 1'000'000;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, "db", &db));
  for (const char* value : {"old", "new"}) {
    ASSERT_OK(db->Put(WriteOptions(), "k", value));
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  EXPECT_GT(db->GetStatistics()->Get(Ticker::kMergesRemote), 0u);
  EXPECT_EQ(GetOr(db.get(), "k"), "new");
  EXPECT_OK(db->Close());
}

// Fails if patience "for ever" turns into none at all.
TEST_F(OpenTest, LargestTimeoutsMeanForEver) {
  Options options = NodeOptions("tcp");
  options.open_timeout_ms = UINT64_MAX;
  options.operation_timeout_ms = UINT64_MAX;
  options.write_stall_timeout_ms = UINT64_MAX;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, "db", &db));
  for (int i = 0; i < 2000; ++i) {
    ASSERT_OK(
        db->Put(WriteOptions(), NumberedKey(static_cast<uint64_t>(i)), std::string(1000, 'v')));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(GetOr(db.get(), NumberedKey(7)), std::string(1000, 'v'));
  EXPECT_OK(db->Close());
}

// Fails if a malformed, empty or contradictory configuration is taken for something else.
TEST_F(OpenTest, BadConfigurationIsNamed) {
  const auto with_config = [](const std::string& contents, uint32_t node = 0) {
    const TemporaryFile file(contents);
    Options options = TinyOptions();
    options.config = file.path();
    options.compute_node_id = node;
    options.open_timeout_ms = 500;
    std::unique_ptr<DB> db;
    return DB::Open(options, "db", &db);
  };
  EXPECT_FALSE(with_config("").ok());
  EXPECT_FALSE(with_config("one line only\n").ok());
  EXPECT_FALSE(with_config("a\n:::bad port:::\n").ok());
  EXPECT_TRUE(Says(with_config("localhost\n" + node_.address() + "\n", 3), "compute_node_id"));
  EXPECT_OK(with_config("localhost\n" + node_.address() + "\n"));
  Options both = NodeOptions();
  both.config = "x";
  EXPECT_TRUE(Says(TryOpen(both), "memory_nodes"));
}

// Fails if a database is read in an order other than its own; the message must name both.
TEST_F(OpenTest, OtherComparatorIsRefused) {
  for (const char* name : {"empty", "with tables"}) {
    {
      const auto db = OpenOrDie(NodeOptions(), name);
      if (name[0] == 'w') {
        for (uint64_t i = 0; i < 100; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "v"));
      }
      ASSERT_OK(db->Close());
    }
    Options options = NodeOptions();
    options.comparator = ReverseBytewiseComparator();
    const Status status = TryOpen(options, name);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_TRUE(Says(status, BytewiseComparator()->Name()));
    EXPECT_TRUE(Says(status, ReverseBytewiseComparator()->Name()));
    const auto db = OpenOrDie(NodeOptions(), name);  // It was left as it was.
    EXPECT_EQ(GetOr(db.get(), NumberedKey(5)), name[0] == 'w' ? "v" : "(none)");
  }
}

// Fails if less levels than the database has lose tables, or more are not added.
TEST_F(OpenTest, NumberOfLevelsMayGrow) {
  Options options = NodeOptions();
  {
    const auto db = OpenOrDie(options, "db");
    ASSERT_OK(db->Put(WriteOptions(), "k", "v"));
    ASSERT_OK(db->Close());
  }
  options.num_levels = 3;
  EXPECT_TRUE(Says(TryOpen(options), "num_levels"));
  options.num_levels = 9;
  const auto db = OpenOrDie(options, "db");
  EXPECT_EQ(GetOr(db.get(), "k"), "v");
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level8"), 0u);
}

}  // namespace
}  // namespace dlsm
