// DB::IngestSorted(): what is visible when, what it refuses, and that nothing is written twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/c.h"
#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/sorted_source.h"
#include "db/handle/ingest_turns.h"
#include "db/test/follower_testing.h"
#include "db/test/map_source_testing.h"
#include "db/test/test_database_testing.h"
#include "port/sync_point.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using Entries = std::map<std::string, std::string>;

// As a list, which need not be in order.
class ListSource final : public SortedSource {
 public:
  explicit ListSource(std::vector<std::string> keys, Status end = Status::OK())
      : keys_(std::move(keys)), end_(std::move(end)) {}
  bool Next(Slice* key, Slice* value) override {
    if (next_ == keys_.size()) return false;
    *key = *value = keys_[next_++];
    return true;
  }
  Status status() const override { return end_; }

 private:
  const std::vector<std::string> keys_;
  const Status end_;
  size_t next_ = 0;
};

std::string Key(int i) {
  std::string digits = std::to_string(i);
  return "key" + std::string(6 - digits.size(), '0') + digits;
}

Entries Tagged(int count, const std::string& tag, size_t value_bytes = 0) {
  Entries entries;
  for (int i = 0; i < count; ++i) entries[Key(i)] = tag + std::string(value_bytes, '.');
  return entries;
}

class IngestTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.statistics = std::make_shared<Statistics>();
    db_ = OpenOrDie(options_, kName);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kName); }

  void OpenWith(const std::function<void(Options*)>& change) {
    CloseAndDestroy(&db_, options_, kName);
    change(&options_);
    db_ = OpenOrDie(options_, kName);
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK(db_->Put(WriteOptions(), key, value));
  }
  void Ingest(const Entries& entries) {
    MapSource source(entries);
    uint64_t count = 0;
    ASSERT_OK(db_->IngestSorted(&source, &count));
    ASSERT_EQ(count, entries.size());
  }
  std::string Get(const std::string& key, const Snapshot* snapshot = nullptr) {
    ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    const Status status = db_->Get(options, key, &value);
    return status.ok() ? value : (status.IsNotFound() ? "-" : status.ToString());
  }
  Entries All(const Snapshot* snapshot = nullptr) {
    ReadOptions options;
    options.snapshot = snapshot;
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(options));
    Entries all;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      all[iterator->key().ToString()] = iterator->value().ToString();
    }
    EXPECT_OK(iterator->status());
    return all;
  }
  uint64_t Count(Ticker ticker) const { return db_->GetStatistics()->Get(ticker); }

  static constexpr const char* kName = "ingests";
  Options options_ = TinyOptions();
  std::unique_ptr<TestNode> node_;  // Of tests that need one; it outlives the database.
  std::unique_ptr<DB> db_;
};

TEST_F(IngestTest, BecomesTablesThatAreWrittenOnce) {
  const Entries entries = Tagged(20000, "v", 100);
  Ingest(entries);
  EXPECT_EQ(All(), entries);
  EXPECT_EQ(Count(Ticker::kFlushBytes), 0u);
  EXPECT_EQ(Count(Ticker::kIngests), 1u);
  EXPECT_GT(Count(Ticker::kIngestBytes), 20000u * 100);
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_EQ(Count(Ticker::kMergeBytesWritten), 0u) << "its tables only move down";
  EXPECT_GT(Count(Ticker::kTrivialMoves), 1u);
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, kName);
  EXPECT_EQ(All(), entries);
}

TEST_F(IngestTest, GoesAboveWhatIsThereAndBelowWhatComes) {
  Put("a", "table");
  Put("b", "table");
  ASSERT_OK(db_->Flush(FlushOptions()));
  Put("b", "memtable");
  Put("c", "memtable");
  Ingest({{"a", "ingest"}, {"b", "ingest"}, {"c", "ingest"}, {"d", "ingest"}, {"e", "ingest"}});
  Put("c", "later");
  ASSERT_OK(db_->Delete(WriteOptions(), "d"));
  const Entries expected = {{"a", "ingest"}, {"b", "ingest"}, {"c", "later"}, {"e", "ingest"}};
  for (const char* step : {"as written", "flushed", "merged", "reopened"}) {
    SCOPED_TRACE(step);
    EXPECT_EQ(All(), expected);
    EXPECT_EQ(Get("b"), "ingest");
    EXPECT_EQ(Get("d"), "-");
    if (step == std::string("as written")) {
      ASSERT_OK(db_->Flush(FlushOptions()));
    } else if (step == std::string("flushed")) {
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    } else {
      ASSERT_OK(db_->Close());
      db_ = OpenOrDie(options_, kName);
    }
  }
  Ingest({{"c", "again"}, {"d", "again"}});
  EXPECT_EQ(Get("c"), "again");
  EXPECT_EQ(Get("d"), "again");
}

TEST_F(IngestTest, RangeTombstonesHideWhatIsOlder) {
  Ingest(Tagged(100, "1"));
  ASSERT_OK(db_->DeleteRange(WriteOptions(), Key(10), Key(90)));
  EXPECT_EQ(All().size(), 20u);
  Ingest({{Key(50), "2"}});
  EXPECT_EQ(All().size(), 21u);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(All().size(), 21u);
  EXPECT_EQ(Get(Key(50)), "2");
}

TEST_F(IngestTest, SnapshotsAndIteratorsStayAtTheirMoment) {
  for (int i = 0; i < 50; ++i) Put(Key(i), "1");
  const Snapshot* const before = db_->GetSnapshot();
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  Ingest(Tagged(100, "2"));
  const Snapshot* const after = db_->GetSnapshot();
  for (int i = 0; i < 50; ++i) Put(Key(i), "3");
  for (const bool merged : {false, true}) {
    if (merged) {
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    }
    EXPECT_EQ(All(before), Tagged(50, "1"));
    EXPECT_EQ(All(after), Tagged(100, "2"));
    EXPECT_EQ(Get(Key(70), before), "-");
    EXPECT_EQ(Get(Key(20), after), "2");
  }
  int entries = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    EXPECT_EQ(iterator->value().ToString(), "1");
    ++entries;
  }
  EXPECT_EQ(entries, 50);
  db_->ReleaseSnapshot(before);
  db_->ReleaseSnapshot(after);
}

TEST_F(IngestTest, RefusesWhatIsNotSorted) {
  Put("b", "there");
  const auto refusal = [&](std::vector<std::string> keys) {
    ListSource source(std::move(keys));
    uint64_t count = 7;
    const Status status = db_->IngestSorted(&source, &count);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_EQ(count, 0u);
    return status.ToString();
  };
  EXPECT_THAT(refusal({"a", "c", "b"}), HasSubstr("entry 3 of the sorted stream, of key b"));
  EXPECT_THAT(refusal({"a", "a"}), HasSubstr("leave each key in once"));
  EXPECT_THAT(refusal({"a", std::string((1 << 20) + 1, 'k')}), HasSubstr("1 MiB"));
  EXPECT_TRUE(db_->IngestSorted(nullptr, nullptr).IsInvalidArgument());
  ListSource failing({"a", "c"}, Status::Corruption("the file", "is torn"));
  EXPECT_TRUE(db_->IngestSorted(&failing, nullptr).IsCorruption());
  EXPECT_EQ(All(), (Entries{{"b", "there"}}));
  ListSource none({});
  EXPECT_OK(db_->IngestSorted(&none, nullptr));
  ListSource empty_key({"", std::string(1, '\0')});
  EXPECT_OK(db_->IngestSorted(&empty_key, nullptr));
  EXPECT_EQ(All().size(), 3u);
}

TEST_F(IngestTest, GivesBackWhatFailedStreamsHaveTaken) {
  node_ = std::make_unique<TestNode>();
  OpenWith([&](Options* options) { *options = node_->With(*options, "shm"); });
  const Entries large = Tagged(4000, "v", 500);
  const auto used = [&] {
    EXPECT_OK(db_->WaitForBackgroundWork());
    return node_->used_bytes();
  };
  const auto fail = [&] {
    std::vector<std::string> keys;
    for (int i = 0; i < 30000; ++i) keys.push_back(Key(i) + std::string(200, 'k'));
    keys.emplace_back("a");
    ListSource source(std::move(keys));
    EXPECT_TRUE(db_->IngestSorted(&source, nullptr).IsInvalidArgument());
  };
  fail();
  const uint64_t before = used();
  for (int i = 0; i < 20; ++i) fail();
  EXPECT_LT(used(), before + (uint64_t{16} << 20)) << "20 times 7 MB";
}

TEST_F(IngestTest, EachOfSeveralShardsHasItsPart) {
  OpenWith([](Options* options) {
    options->shards = 3;
    options->shard_boundaries = {Key(1000), Key(2000)};
  });
  for (int i = 0; i < 3000; i += 3) Put(Key(i), "old");
  Ingest(Tagged(3000, "new"));
  EXPECT_EQ(All(), Tagged(3000, "new"));
  Put(Key(1500), "newer");
  EXPECT_EQ(Get(Key(1500)), "newer");
  EXPECT_EQ(Count(Ticker::kIngests), 3u);
  ListSource source({Key(1), Key(1001), Key(2001), Key(1002)});
  EXPECT_TRUE(db_->IngestSorted(&source, nullptr).IsInvalidArgument());
  EXPECT_EQ(Get(Key(1)), "new");
}

// An order in which bytes ascend the other way.
TEST_F(IngestTest, KeysAscendInTheOrderOfTheComparator) {
  OpenWith([](Options* options) { options->comparator = ReverseBytewiseComparator(); });
  ListSource source({"c", "b", "a"});
  ASSERT_OK(db_->IngestSorted(&source, nullptr));
  EXPECT_EQ(All().size(), 3u);
  ListSource wrong({"a", "b"});
  EXPECT_TRUE(db_->IngestSorted(&wrong, nullptr).IsInvalidArgument());
}

TEST_F(IngestTest, TakesWhatAnIteratorHas) {
  Ingest(Tagged(500, "v"));
  const std::string copy_name = "copy";
  std::unique_ptr<DB> copy = OpenOrDie(options_, copy_name);
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  IteratorSource source(iterator.get());
  uint64_t entries = 0;
  ASSERT_OK(copy->IngestSorted(&source, &entries));
  EXPECT_EQ(entries, 500u);
  CloseAndDestroy(&copy, options_, copy_name);
}

// Writers, readers and ingests side by side: a reader that sees one entry of an ingest sees all,
// and one that sees a write that came after it sees the ingest.
TEST_F(IngestTest, IsSeenAsAWholeByReadersBesideIt) {
  constexpr int kRounds = 30;
  constexpr int kKeys = 200;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) ASSERT_OK(db_->Put(WriteOptions(), "w" + Key(i % 5000), "w"));
  });
  std::thread reader([&] {
    while (!stop) {
      const Snapshot* const snapshot = db_->GetSnapshot();
      ReadOptions at;
      at.snapshot = snapshot;
      for (const bool with_snapshot : {true, false}) {
        const std::unique_ptr<Iterator> iterator(
            db_->NewIterator(with_snapshot ? at : ReadOptions()));
        std::string tag;
        int entries = 0;
        for (iterator->Seek("key"); iterator->Valid() && iterator->key().starts_with("key");
             iterator->Next()) {
          if (entries++ == 0) tag = iterator->value().ToString();
          ASSERT_EQ(iterator->value().ToString(), tag);
        }
        ASSERT_OK(iterator->status());
        ASSERT_TRUE(entries == 0 || entries == kKeys) << entries;
        std::string done;
        if (with_snapshot && db_->Get(at, "done", &done).ok()) {
          ASSERT_GE(std::stoi(tag), std::stoi(done)) << "written after the ingest";
        }
      }
      std::vector<std::string> values;
      const std::vector<Status> statuses =
          db_->MultiGet(ReadOptions(), {"done", Key(0), Key(kKeys - 1)}, &values);
      if (statuses[0].ok()) {
        ASSERT_EQ(values[1], values[2]);
        ASSERT_GE(std::stoi(values[1]), std::stoi(values[0]));
      }
      db_->ReleaseSnapshot(snapshot);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    Ingest(Tagged(kKeys, std::to_string(round)));
    Put("done", std::to_string(round));
  }
  stop = true;
  writer.join();
  reader.join();
  EXPECT_EQ(Get(Key(7)), std::to_string(kRounds));
}

// What the hook does at its places, for tests of what comes between two steps of an ingest.
DB* hooked_db = nullptr;
std::unique_ptr<std::thread> hooked_reader;
Entries hooked_seen;

Entries AllAsOfNow(DB* db) {
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  Entries all;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    all[iterator->key().ToString()] = iterator->value().ToString();
  }
  return all;
}

void WriteAndReadBetweenSteps(const char* place) {
  const std::string at = place;
  if (at == "ingest: to be switched") {
    ASSERT_OK(hooked_db->Put(WriteOptions(), "b", "before"));
  } else if (at == "ingest: switched") {
    ASSERT_OK(hooked_db->Put(WriteOptions(), "c", "after"));
    hooked_reader = std::make_unique<std::thread>([] { hooked_seen = AllAsOfNow(hooked_db); });
    // Long enough for a reader that does not wait to have read.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST_F(IngestTest, HasItsPlaceAmongTheWritesBesideIt) {
  hooked_db = db_.get();
  port::SyncPointHookOfProcess() = WriteAndReadBetweenSteps;
  Ingest({{"a", "ingest"}, {"b", "ingest"}, {"c", "ingest"}});
  port::SyncPointHookOfProcess() = nullptr;
  ASSERT_NE(hooked_reader, nullptr);
  hooked_reader->join();
  hooked_reader.reset();
  const Entries expected = {{"a", "ingest"}, {"b", "ingest"}, {"c", "after"}};
  EXPECT_EQ(hooked_seen, expected) << "the write that comes after it, but not the ingest";
  EXPECT_EQ(All(), expected);
  EXPECT_EQ(Get("b"), "ingest");
  EXPECT_EQ(Get("c"), "after");
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(All(), expected);
}

TEST_F(IngestTest, StreamsOfSeveralThreadsAreAllThere) {
  constexpr int kThreads = 4;
  constexpr int kEach = 3000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      Entries entries;
      for (int i = 0; i < kEach; ++i) entries[Key(t * kEach + i)] = "v";
      entries["same"] = std::to_string(t);
      MapSource source(entries);
      EXPECT_OK(db_->IngestSorted(&source, nullptr));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(All().size(), size_t{kThreads * kEach + 1});
}

// The flush with which an ingest is installed fails: nothing of it is there, and all goes on.
TEST_F(IngestTest, NothingIsThereAfterAnError) {
  node_ = std::make_unique<TestNode>();
  auto faults = std::make_shared<FaultInjector>();
  OpenWith([&](Options* options) {
    *options = node_->With(*options, "shm");
    options->fault_injector = faults;
    options->write_stall_timeout_ms = 300;
  });
  Put("a", "1");
  ASSERT_OK(db_->Flush(FlushOptions()));
  const Entries entries = {{"a", "2"}, {"b", std::string(5000, 'v')}};
  int failed = 0;
  for (uint64_t nth = 1; nth <= 12; ++nth) {
    faults->HarmAll(true);
    faults->FailNth(nth);
    MapSource source(entries);
    const Status status = db_->IngestSorted(&source, nullptr);
    faults->Clear();
    if (status.ok()) {
      EXPECT_EQ(Get("a"), "2");
      Put("a", "1");
      ASSERT_OK(db_->Delete(WriteOptions(), "b"));
      continue;
    }
    ++failed;
    EXPECT_EQ(Get("a"), "1") << status.ToString();
    EXPECT_EQ(Get("b"), "-");
    EXPECT_EQ(All(), (Entries{{"a", "1"}}));
    Put("c", "after");
    ASSERT_OK(db_->Flush(FlushOptions()));
    EXPECT_EQ(Get("c"), "after");
    ASSERT_OK(db_->Delete(WriteOptions(), "c"));
  }
  EXPECT_GT(failed, 0);
  const Snapshot* const snapshot = db_->GetSnapshot();
  EXPECT_EQ(All(snapshot), (Entries{{"a", "1"}}));
  db_->ReleaseSnapshot(snapshot);
}

// A source that uses the database that it is ingested into.
class BusySource final : public SortedSource {
 public:
  explicit BusySource(DB* db) : db_(db) {}
  bool Next(Slice* key, Slice* value) override {
    if (next_ == 'f') return false;
    EXPECT_OK(db_->Put(WriteOptions(), "beside", std::string(1, next_)));
    EXPECT_OK(db_->Flush(FlushOptions()));
    ListSource inner({"inner"});
    EXPECT_TRUE(db_->IngestSorted(&inner, nullptr).IsInvalidArgument());
    EXPECT_EQ(AllAsOfNow(db_).count("c"), 0u);
    key_ = std::string(1, next_++);
    *key = *value = key_;
    return true;
  }

 private:
  DB* const db_;
  char next_ = 'a';
  std::string key_;
};

TEST_F(IngestTest, ItsSourceMayUseTheDatabase) {
  BusySource source(db_.get());
  ASSERT_OK(db_->IngestSorted(&source, nullptr));
  EXPECT_EQ(All().size(), 6u);
}

TEST_F(IngestTest, FollowersSeeIt) {
  node_ = std::make_unique<TestNode>();
  OpenWith([&](Options* options) {
    options->publish_interval_ms = 10;
    *options = node_->With(*options, "shm");
  });
  const std::unique_ptr<DB> follower = FollowOrDie(node_->With(FollowerOptions(), "shm"), kName);
  Ingest(Tagged(1000, "v"));
  CatchUpWith(db_.get(), follower.get());
  std::string value;
  EXPECT_OK(follower->Get(ReadOptions(), Key(999), &value));
  ListSource source({"a"});
  EXPECT_TRUE(follower->IngestSorted(&source, nullptr).IsNotSupported());
  EXPECT_OK(follower->Close());
}

TEST(IngestTurnsTest, EndBeforeWritesHaveNoMoreNumbers) {
  IngestTurns turns;
  const Sequencer fresh(0);
  const IngestTurns::Turn first(&turns, fresh, 1);
  EXPECT_OK(first.CheckNumbers(1));
  const IngestTurns::Turn second(&turns, fresh, 256);
  EXPECT_GT(second.number(0), first.number(0));
  IngestTurns others;
  const Sequencer old(IngestTurns::kNumberMax - 1);
  const IngestTurns::Turn last(&others, old, 1);
  EXPECT_TRUE(last.CheckNumbers(1).IsNotSupported());
}

TEST_F(IngestTest, LevelZeroStopsNobodyWhileLoading) {
  OpenWith([](Options* options) {
    options->bulk_load = true;
    options->level0_file_num_compaction_trigger = 1;
    options->level0_stop_writes_trigger = 2;
  });
  for (int i = 0; i < 20000; ++i) Put(Key(i * 7919 % 20000), std::string(100, 'v'));
  EXPECT_EQ(Count(Ticker::kStallMicrosLevel0), 0u);
}

TEST_F(IngestTest, InC) {
  char* error = nullptr;
  dlsm_options_t* const options = dlsm_options_create();
  dlsm_options_set_create_if_missing(options, 1);
  dlsm_t* const db = dlsm_open(options, "ingest in c", &error);
  ASSERT_EQ(error, nullptr);
  struct Letters {
    char next = 'a';
    char last = 'e';
    char step = 1;
  };
  const auto next = [](void* state, const char** key, size_t* key_bytes, const char** value,
                       size_t* value_bytes) -> uint8_t {
    auto* letters = static_cast<Letters*>(state);
    static char letter;
    if (letters->next > letters->last) return 0;
    letter = letters->next;
    letters->next = static_cast<char>(letters->next + letters->step);
    *key = *value = &letter;
    *key_bytes = *value_bytes = 1;
    return 1;
  };
  Letters letters;
  EXPECT_EQ(dlsm_ingest_sorted(db, &letters, next, &error), 5u);
  EXPECT_EQ(error, nullptr);
  size_t bytes = 0;
  dlsm_readoptions_t* const read = dlsm_readoptions_create();
  char* const value = dlsm_get(db, read, "c", 1, &bytes, &error);
  EXPECT_EQ(std::string(value, bytes), "c");
  dlsm_free(value);
  EXPECT_EQ(dlsm_ingest_sorted(db, nullptr, nullptr, &error), 0u);
  EXPECT_THAT(error, HasSubstr("next is NULL"));
  EXPECT_EQ(dlsm_ingest_sorted(nullptr, &letters, next, &error), 0u);
  EXPECT_THAT(error, HasSubstr("db"));
  dlsm_free(error);
  dlsm_readoptions_destroy(read);
  dlsm_close(db);
  dlsm_options_destroy(options);
}

}  // namespace
}  // namespace dlsm
