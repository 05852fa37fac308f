// Opening, closing and destroying databases, and what every wrong way of doing so is answered.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/handle/open_testing.h"
#include "db/test/test_database_testing.h"

namespace dlsm {
namespace {

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

// The same for the embedded memory node.
TEST(EmbeddedOpenTest, SecondHandleIsRefused) {
  const auto db = OpenOrDie(TinyOptions(), "embedded twice");
  std::unique_ptr<DB> second;
  EXPECT_TRUE(DB::Open(TinyOptions(), "embedded twice", &second).IsBusy());
  EXPECT_EQ(second, nullptr);
  EXPECT_OK(db->Close());
  EXPECT_OK(DestroyDB("embedded twice", TinyOptions()));
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
      if (round == 2) {
        ASSERT_OK(db->CompactRange(nullptr, nullptr));
      }
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
  EXPECT_TRUE(Says(db->CompactRange(nullptr, nullptr), "closed"));
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
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
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
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->Put(WriteOptions(), "zz", "3"));
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    check();
    ASSERT_OK(db->Close());
    EXPECT_OK(DestroyDB("large", options));
  }
}

// Fails if a property that doc/reference.md lists is not there, or a wrong one is.
TEST_F(OpenTest, PropertiesAreAnswered) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  for (uint64_t i = 0; i < 500; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "v"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  std::string value;
  for (const char* name : {"dlsm.stats",
                           "dlsm.version",
                           "dlsm.levels",
                           "dlsm.sstables",
                           "dlsm.wire",
                           "dlsm.waits",
                           "dlsm.rpc",
                           "dlsm.components",
                           "dlsm.expected-components",
                           "dlsm.pending-merge-bytes",
                           "dlsm.stalls",
                           "dlsm.memory",
                           "dlsm.numa",
                           "dlsm.approximate-memory-usage",
                           "dlsm.metadata-bytes",
                           "dlsm.remote-cpu-micros",
                           "dlsm.memory-node",
                           "dlsm.background-error",
                           "dlsm.num-files-at-level0",
                           "dlsm.guards",
                           "dlsm.shards",
                           "dlsm.placement",
                           "dlsm.merge-load",
                           "dlsm.merge-schedule",
                           "dlsm.ownership-epoch"}) {
    EXPECT_TRUE(db->GetProperty(name, &value)) << name;
    EXPECT_FALSE(value.empty()) << name;
  }
  EXPECT_TRUE(db->GetProperty("dlsm.fabric", &value));
  EXPECT_EQ(value, "shm");
  EXPECT_TRUE(db->GetProperty("dlsm.background-error", &value));
  EXPECT_EQ(value, "OK");
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.entries"), 500u);
  uint64_t number = 0;
  EXPECT_TRUE(db->GetIntProperty("leveldb.entries", &number));
  EXPECT_EQ(number, 500u);
  for (const char* name : {"dlsm.fabric", "dlsm.stats", "dlsm.shards", "dlsm.nothing"}) {
    EXPECT_FALSE(db->GetIntProperty(name, &number)) << name;
  }
  EXPECT_EQ(number, 500u) << "left alone";
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

// Fails if transfers of a purpose have no line, or a line is of a purpose that none has.
TEST_F(OpenTest, WireHasALineForEachPurpose) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  std::string text;
  ASSERT_TRUE(db->GetProperty("dlsm.wire", &text));
  std::istringstream lines(text);
  std::vector<std::string> purposes;
  for (std::string line; std::getline(lines, line);) {
    purposes.push_back(line.substr(0, line.find(' ')));
  }
  const std::vector<std::string> expected = {"read", "flush",       "compaction",
                                             "rpc",  "publication", "log"};
  EXPECT_EQ(purposes, expected);
}

}  // namespace
}  // namespace dlsm
