// Opening, closing and destroying databases, and what every wrong way of doing so is answered.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/test_database_testing.h"
#include "util/temporary_file_testing.h"

namespace dlsm {
namespace {

testing::AssertionResult Says(const Status& status, const std::string& text) {
  if (status.ToString().find(text) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << status.ToString() << "\" does not say " << text;
}

// A memory node of each test's own, so that all of its bytes are accounted for.
class OpenTest : public testing::Test {
 protected:
  Options NodeOptions(const std::string& fabric = "shm") {
    return node_.With(TinyOptions(), fabric);
  }
  Status TryOpen(const Options& options, const std::string& name = "db") {
    std::unique_ptr<DB> db;
    return DB::Open(options, name, &db);
  }

  TestNode node_;
};

// Fails if a database is made that nobody asked for, or the message does not say what to set.
TEST_F(OpenTest, MissingDatabaseIsAnError) {
  Options options = NodeOptions();
  options.create_if_missing = false;
  const Status status = TryOpen(options);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_TRUE(Says(status, "create_if_missing"));
  EXPECT_EQ(node_.server().node().Statistics().databases, 0u);
}

// Fails if an existing database is opened though the caller wanted a new one.
TEST_F(OpenTest, ExistingDatabaseIsAnErrorIfAskedFor) {
  Options options = NodeOptions();
  options.error_if_exists = true;
  EXPECT_OK(TryOpen(options));
  const Status status = TryOpen(options);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_TRUE(Says(status, "error_if_exists"));
}

// Fails if two handles can write one database, or the message does not say who has it.
TEST_F(OpenTest, SecondHandleIsRefused) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  const Status status = TryOpen(NodeOptions());
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_TRUE(Says(status, "process " + std::to_string(getpid())));
  EXPECT_OK(TryOpen(NodeOptions(), "another"));
  const Status destroyed = DestroyDB("db", NodeOptions());
  EXPECT_TRUE(destroyed.IsBusy()) << destroyed.ToString();
  EXPECT_OK(db->Put(WriteOptions(), "k", "v"));
  EXPECT_OK(db->Close());
  EXPECT_OK(TryOpen(NodeOptions()));
}

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

// The same for the embedded memory node.
TEST(EmbeddedOpenTest, SecondHandleIsRefused) {
  const auto db = OpenOrDie(TinyOptions(), "embedded twice");
  std::unique_ptr<DB> second;
  EXPECT_TRUE(DB::Open(TinyOptions(), "embedded twice", &second).IsBusy());
  EXPECT_EQ(second, nullptr);
  EXPECT_OK(db->Close());
  EXPECT_OK(DestroyDB("embedded twice", TinyOptions()));
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
      {"idle_size_amplification_percent",
       [](Options* o) { o->idle_size_amplification_percent = -1; }},
      {"max_bytes_for_level", [](Options* o) { o->max_bytes_for_level_base = 0; }},
      {"max_bytes_for_level", [](Options* o) { o->max_bytes_for_level_multiplier = 0; }},
      {"max_bytes_for_level", [](Options* o) { o->max_bytes_for_level_multiplier = NAN; }},
      {"fabric", [](Options* o) { o->fabric = "pigeon"; }},
      {"fabric", [](Options* o) { o->fabric = "local"; }},
      {"config", [](Options* o) { o->config = "/nonexistent"; }},
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

// Fails if a memory node that cannot be reached takes longer than allowed, or goes unnamed.
TEST(OpenElsewhereTest, UnreachableNodeIsNamed) {
  Options options = TinyOptions();
  options.memory_nodes = "127.0.0.1:1";
  options.open_timeout_ms = 500;
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options, "db", &db);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Says(status, "127.0.0.1:1"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_FALSE(DestroyDB("db", options).ok());
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

// Fails if anything is lost between Close and the next open, or a new write gets a sequence number
// that an old one has: it would then lose against it.
TEST_F(OpenTest, FindsEverythingAgain) {
  for (const char* fabric : {"shm", "tcp"}) {
    for (uint64_t round = 0; round < 5; ++round) {
      const auto db = OpenOrDie(NodeOptions(fabric), "again");
      for (uint64_t i = 0; i < 300; ++i) {
        const std::string expected =
            round == 0 || i % 50 == 49 ? "(none)" : "round" + std::to_string(round - 1);
        ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), expected) << round << " " << i;
      }
      const Snapshot* before = db->GetSnapshot();
      for (uint64_t i = 0; i < 300; ++i) {
        ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "round" + std::to_string(round)));
        if (i % 50 == 49) {
          ASSERT_OK(db->Delete(WriteOptions(), NumberedKey(i)));
        }
      }
      ReadOptions at_snapshot;
      at_snapshot.snapshot = before;
      EXPECT_EQ(GetOr(db.get(), NumberedKey(1), at_snapshot),
                round == 0 ? "(none)" : "round" + std::to_string(round - 1));
      db->ReleaseSnapshot(before);
      if (round == 2) db->CompactRange(nullptr, nullptr);
      if (round % 2 == 0) {
        ASSERT_OK(db->Close());  // Otherwise the destructor does.
      }
    }
    EXPECT_OK(DestroyDB("again", NodeOptions(fabric)));
  }
}

// Fails if what is destroyed keeps its memory, or another database loses its own.
TEST_F(OpenTest, DestroyGivesTheMemoryBack) {
  std::vector<uint64_t> used = {node_.used_bytes()};
  for (const char* name : {"first", "second"}) {
    const auto db = OpenOrDie(NodeOptions(), name);
    for (uint64_t i = 0; i < 500; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), std::string(500, 'v')));
    }
    ASSERT_OK(db->Close());
    used.push_back(node_.used_bytes());
  }
  EXPECT_GT(used[1], used[0] + 250000);
  EXPECT_GT(used[2], used[1]);
  EXPECT_OK(DestroyDB("second", NodeOptions()));
  EXPECT_EQ(node_.used_bytes(), used[1]);
  EXPECT_EQ(GetOr(OpenOrDie(NodeOptions(), "first").get(), NumberedKey(499)),
            std::string(500, 'v'));
  EXPECT_OK(DestroyDB("first", NodeOptions()));
  EXPECT_EQ(node_.used_bytes(), 0u);
  EXPECT_OK(DestroyDB("first", NodeOptions())) << "none is as good as destroyed";
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
}

// Fails if a call to a closed handle does anything but say so.
TEST_F(OpenTest, ClosedHandleRefusesEverything) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  ASSERT_OK(db->Put(WriteOptions(), "k", "v"));
  ASSERT_OK(db->Close());
  EXPECT_OK(db->Close()) << "closing twice is closing once";
  std::string value;
  PinnableSlice pinned;
  WriteBatch batch;
  batch.Put("k", "v");
  EXPECT_TRUE(Says(db->Put(WriteOptions(), "k", "v"), "closed"));
  EXPECT_TRUE(Says(db->Delete(WriteOptions(), "k"), "closed"));
  EXPECT_TRUE(Says(db->Write(WriteOptions(), &batch), "closed"));
  EXPECT_TRUE(Says(db->Get(ReadOptions(), "k", &value), "closed"));
  EXPECT_TRUE(Says(db->Get(ReadOptions(), "k", &pinned), "closed"));
  std::vector<std::string> values;
  EXPECT_TRUE(Says(db->MultiGet(ReadOptions(), {"k", "l"}, &values).at(1), "closed"));
  EXPECT_EQ(values.size(), 2u);
  EXPECT_TRUE(Says(db->Flush(FlushOptions()), "closed"));
  EXPECT_TRUE(Says(db->WaitForBackgroundWork(), "closed"));
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE(Says(iterator->status(), "closed"));
  db->ReleaseSnapshot(db->GetSnapshot());
  EXPECT_FALSE(db->GetProperty("dlsm.stats", &value));
  uint64_t size = 1;
  const Range range("a", "z");
  db->GetApproximateSizes(&range, 1, &size);
  EXPECT_EQ(size, 0u);
  db->CompactRange(nullptr, nullptr);
  EXPECT_NE(db->GetStatistics(), nullptr);
}

// Fails if emptiness is taken for absence anywhere on the way through memtables and tables.
TEST_F(OpenTest, EmptyKeysAndValuesAreAsGoodAsAny) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  const auto check = [&db](const char* where) {
    SCOPED_TRACE(where);
    EXPECT_EQ(GetOr(db.get(), ""), "value of the empty key");
    EXPECT_EQ(GetOr(db.get(), "k"), "");
    EXPECT_EQ(GetOr(db.get(), "l"), "(none)");
    std::vector<std::string> values;
    const auto statuses = db->MultiGet(ReadOptions(), {"", "k", "l"}, &values);
    EXPECT_OK(statuses[0]);
    EXPECT_OK(statuses[1]);
    EXPECT_TRUE(statuses[2].IsNotFound());
    const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->key().size(), 0u);
    iterator->Next();
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->value().size(), 0u);
    iterator->Prev();
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->value().ToString(), "value of the empty key");
    iterator->SeekForPrev("");
    EXPECT_TRUE(iterator->Valid());
    iterator->Prev();
    EXPECT_FALSE(iterator->Valid());
  };
  ASSERT_OK(db->Put(WriteOptions(), "", "value of the empty key"));
  ASSERT_OK(db->Put(WriteOptions(), "k", ""));
  check("memtable");
  ASSERT_OK(db->Flush(FlushOptions()));
  check("level 0");
  db->CompactRange(nullptr, nullptr);
  check("below");
  WriteBatch none;
  EXPECT_OK(db->Write(WriteOptions(), &none));
  ASSERT_OK(db->Delete(WriteOptions(), ""));
  EXPECT_EQ(GetOr(db.get(), ""), "(none)");
}

// Fails if the largest values and keys that are promised do not work in some place, or larger ones
// get in.
TEST(LargeEntriesTest, WorkUpToTheirLimit) {
  TestNode::Config config;
  config.bytes = uint64_t{1} << 30;
  TestNode node(config);
  const std::string largest_value(kValueBytesMax, 'v');
  const std::string largest_key(kKeyBytesMax, 'k');
  for (const char* fabric : {"shm", "tcp"}) {
    const Options options = node.With(TinyOptions(), fabric);
    const auto db = OpenOrDie(options, "large");
    ASSERT_OK(db->Put(WriteOptions(), "before", "1"));
    ASSERT_OK(db->Put(WriteOptions(), largest_key, largest_value));
    ASSERT_OK(db->Put(WriteOptions(), "z", "2"));
    const Status value_refused = db->Put(WriteOptions(), "k", largest_value + "v");
    EXPECT_TRUE(value_refused.IsInvalidArgument());
    EXPECT_TRUE(Says(value_refused, "64 MiB"));
    EXPECT_TRUE(db->Put(WriteOptions(), largest_key + "k", "v").IsInvalidArgument());
    WriteBatch batch;
    batch.Put("good", "v");
    batch.Put("bad", largest_value + "v");
    EXPECT_TRUE(db->Write(WriteOptions(), &batch).IsInvalidArgument());
    EXPECT_EQ(GetOr(db.get(), "good"), "(none)") << "all or nothing";
    const auto check = [&] {
      EXPECT_TRUE(GetOr(db.get(), largest_key) == largest_value);
      EXPECT_EQ(GetOr(db.get(), "before"), "1");
      const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
      iterator->Seek(largest_key);
      ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
      EXPECT_TRUE(iterator->value() == Slice(largest_value));
      iterator->Next();
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key().ToString(), "z");
    };
    check();
    ASSERT_OK(db->Flush(FlushOptions()));
    check();
    db->CompactRange(nullptr, nullptr);
    ASSERT_OK(db->Put(WriteOptions(), "zz", "3"));
    db->CompactRange(nullptr, nullptr);
    check();
    ASSERT_OK(db->Close());
    EXPECT_OK(DestroyDB("large", options));
  }
}

// Fails if a property that README lists is not there, or a wrong one is.
TEST_F(OpenTest, PropertiesAreAnswered) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  for (uint64_t i = 0; i < 500; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "v"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  std::string value;
  for (const char* name :
       {"dlsm.stats", "dlsm.levels", "dlsm.sstables", "dlsm.wire", "dlsm.waits", "dlsm.rpc",
        "dlsm.components", "dlsm.expected-components", "dlsm.pending-merge-bytes", "dlsm.stalls",
        "dlsm.memory", "dlsm.approximate-memory-usage", "dlsm.metadata-bytes",
        "dlsm.remote-cpu-micros", "dlsm.memory-node", "dlsm.background-error",
        "dlsm.num-files-at-level0"}) {
    EXPECT_TRUE(db->GetProperty(name, &value)) << name;
    EXPECT_FALSE(value.empty()) << name;
  }
  EXPECT_TRUE(db->GetProperty("dlsm.fabric", &value));
  EXPECT_EQ(value, "shm");
  EXPECT_TRUE(db->GetProperty("dlsm.background-error", &value));
  EXPECT_EQ(value, "OK");
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.entries"), 500u);
  EXPECT_GT(NumberProperty(db.get(), "dlsm.table-bytes"), 500u);
  for (const char* name :
       {"", "dlsm", "dlsm.", "dlsm.nothing", "dlsm.num-files-at-level", "dlsm.num-files-at-level4",
        "dlsm.num-files-at-level-1", "dlsm.num-files-at-level0x",
        "dlsm.num-files-at-level99999999999999999999"}) {
    EXPECT_FALSE(db->GetProperty(name, &value)) << name;
  }
  uint64_t sizes[2];
  const Range ranges[2] = {Range("a", "z"), Range("x", "z")};
  db->GetApproximateSizes(ranges, 2, sizes);
  EXPECT_GT(sizes[0], 500u);
  EXPECT_EQ(sizes[1], 0u);
}

}  // namespace
}  // namespace dlsm
