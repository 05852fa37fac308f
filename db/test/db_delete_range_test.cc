// DB::DeleteRange(): what it deletes, for whom, and what becomes of it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dLSM/c.h"
#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"
#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "port/sync_point.h"
#include "util/eventually_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class DeleteRangeTest : public testing::Test {
 protected:
  void SetUp() override { db_ = OpenOrDie(options_, kName); }
  void TearDown() override { CloseAndDestroy(&db_, options_, kName); }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK(db_->Put(WriteOptions(), key, value));
  }
  void DeleteRange(const std::string& begin, const std::string& end) {
    ASSERT_OK(db_->DeleteRange(WriteOptions(), begin, end));
  }
  void Flush() { ASSERT_OK(db_->Flush(FlushOptions())); }
  void Reopen() {
    ASSERT_OK(db_->Close());
    db_ = OpenOrDie(options_, kName);
  }

  std::string Get(const std::string& key, const Snapshot* snapshot = nullptr) {
    ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    const Status status = db_->Get(options, key, &value);
    return status.ok() ? value : (status.IsNotFound() ? "-" : status.ToString());
  }
  // "key=value " for each entry, forwards; backwards they are the same.
  std::string All(const Snapshot* snapshot = nullptr) {
    ReadOptions options;
    options.snapshot = snapshot;
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(options));
    std::string all;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      all += iterator->key().ToString() + "=" + iterator->value().ToString() + " ";
    }
    EXPECT_OK(iterator->status());
    std::string backwards;
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
      backwards = iterator->key().ToString() + "=" + iterator->value().ToString() + " " + backwards;
    }
    EXPECT_EQ(all, backwards);
    return all;
  }
  std::string Property(const std::string& name) {
    std::string value;
    EXPECT_TRUE(db_->GetProperty(name, &value)) << name;
    return value;
  }

  static constexpr const char* kName = "ranges";
  static Options WithStatistics() {
    Options options = TinyOptions();
    options.statistics = std::make_shared<Statistics>();
    return options;
  }

  Options options_ = WithStatistics();
  std::unique_ptr<DB> db_;
};

TEST_F(DeleteRangeTest, HidesWhatIsOlder) {
  for (const char* key : {"a", "b", "c", "d"}) Put(key, "1");
  DeleteRange("b", "d");
  EXPECT_EQ(All(), "a=1 d=1 ");
  EXPECT_EQ(Get("b"), "-");
  EXPECT_EQ(Get("d"), "1");
  Put("c", "2");
  EXPECT_EQ(All(), "a=1 c=2 d=1 ");
  Flush();
  EXPECT_EQ(All(), "a=1 c=2 d=1 ");
  DeleteRange("a", "z");
  EXPECT_EQ(All(), "");
  EXPECT_EQ(Get("c"), "-");
  Flush();
  EXPECT_EQ(All(), "");
  Put("b", "3");
  EXPECT_EQ(All(), "b=3 ");
}

TEST_F(DeleteRangeTest, SnapshotsAndIteratorsSeeWhatWasThere) {
  for (const char* key : {"a", "b", "c"}) Put(key, "1");
  const Snapshot* const before = db_->GetSnapshot();
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  DeleteRange("a", "c");
  Put("b", "2");
  const Snapshot* const between = db_->GetSnapshot();
  DeleteRange("b", "z");
  for (const bool merged : {false, true}) {
    if (merged) {
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    }
    EXPECT_EQ(All(before), "a=1 b=1 c=1 ");
    EXPECT_EQ(Get("b", before), "1");
    EXPECT_EQ(All(between), "b=2 c=1 ");
    EXPECT_EQ(Get("a", between), "-");
    EXPECT_EQ(All(), "");
  }
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key().ToString(), "a");
  db_->ReleaseSnapshot(before);
  db_->ReleaseSnapshot(between);
}

TEST_F(DeleteRangeTest, OfABatchIsOneUpdateAmongOthers) {
  Put("a", "1");
  Put("b", "1");
  WriteBatch batch;
  batch.Put("c", "2");
  batch.DeleteRange("a", "d");
  batch.Put("b", "2");
  EXPECT_EQ(batch.Count(), 3U);
  ASSERT_OK(db_->Write(WriteOptions(), &batch));
  EXPECT_EQ(All(), "b=2 ");
}

TEST_F(DeleteRangeTest, BoundsThatAreEqualDeleteNothing) {
  Put("a", "1");
  DeleteRange("a", "a");
  EXPECT_EQ(All(), "a=1 ");
  Flush();
  EXPECT_EQ(All(), "a=1 ");
  EXPECT_EQ(Property("dlsm.range-tombstones"), "0");
}

TEST_F(DeleteRangeTest, BoundsInTheWrongOrderAreRefused) {
  Put("a", "1");
  const Status status = db_->DeleteRange(WriteOptions(), "b", "a");
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  WriteBatch batch;
  batch.Put("c", "1");
  batch.DeleteRange("b", "a");
  EXPECT_TRUE(db_->Write(WriteOptions(), &batch).IsInvalidArgument());
  EXPECT_EQ(All(), "a=1 ");
  const std::string long_bound((size_t{1} << 20) + 1, 'x');
  EXPECT_TRUE(db_->DeleteRange(WriteOptions(), "b", long_bound).IsInvalidArgument());
}

TEST_F(DeleteRangeTest, OutlivesTheHandle) {
  Put("a", "1");
  Put("b", "1");
  Flush();
  const Snapshot* const before = db_->GetSnapshot();  // Keeps merges from applying it.
  DeleteRange("a", "b");
  Flush();
  EXPECT_EQ(Property("dlsm.range-tombstones"), "1");
  db_->ReleaseSnapshot(before);
  Reopen();
  EXPECT_EQ(All(), "b=1 ");
}

// Merges apply it, and then it need not be kept.
TEST_F(DeleteRangeTest, GoesWithWhatItHides) {
  for (int i = 0; i < 100; ++i) Put("key" + std::to_string(100 + i), std::string(1000, 'v'));
  Flush();
  DeleteRange("key120", "key180");
  Flush();
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(Property("dlsm.range-tombstones"), "0");
  EXPECT_GE(options_.statistics->Get(Ticker::kMergeHidden), 60U);
  Put("key150", "2");
  EXPECT_EQ(Get("key150"), "2");
  EXPECT_EQ(Get("key151"), "-");
}

// While nobody writes, merges come by themselves; tables that are hidden as a whole are not read.
TEST_F(DeleteRangeTest, GivesItsMemoryBackByItself) {
  for (int i = 0; i < 400; ++i) Put("key" + std::to_string(1000 + i), std::string(1000, 'v'));
  Flush();
  ASSERT_OK(db_->WaitForBackgroundWork());
  const uint64_t read_before = options_.statistics->Get(Ticker::kMergeBytesRead);
  DeleteRange("key", "kez");
  Flush();
  EXPECT_EQ(All(), "");
  EXPECT_TRUE(Eventually([&] { return Property("dlsm.range-tombstones") == "0"; }));
  EXPECT_EQ(Property("dlsm.table-bytes"), "0");
  EXPECT_EQ(options_.statistics->Get(Ticker::kMergeBytesRead), read_before);
}

TEST_F(DeleteRangeTest, SnapshotsKeepItAndWhatItHides) {
  Put("a", "1");
  Flush();
  const Snapshot* const before = db_->GetSnapshot();
  DeleteRange("a", "b");
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(Property("dlsm.range-tombstones"), "1");
  EXPECT_EQ(Get("a", before), "1");
  EXPECT_EQ(Get("a"), "-");
  db_->ReleaseSnapshot(before);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(Property("dlsm.range-tombstones"), "0");
}

// A memtable with many of them is flushed though it is small.
TEST_F(DeleteRangeTest, ManyFillAMemtable) {
  const uint64_t flushes = options_.statistics->Get(Ticker::kFlushes);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "key" + std::to_string(1000 + i);
    Put(key, "1");
    DeleteRange(key, key + "x");
    Put(key + "y", "2");
  }
  EXPECT_GE(options_.statistics->Get(Ticker::kFlushes), flushes + 3);
  EXPECT_EQ(Get("key1500"), "-");
  EXPECT_EQ(Get("key1500y"), "2");
}

// Tombstones are put with the manifest: there is an end to them, of memtables as of batches.
TEST_F(DeleteRangeTest, TooManyAreRefused) {
  Put("100", "1");
  Put("199", "1");
  Flush();
  const Snapshot* const snapshot = db_->GetSnapshot();  // So that merges cannot apply them.
  const std::string bound(size_t{1} << 19, 'a');
  const auto delete_one = [&](int i) {
    return db_->DeleteRange(WriteOptions(), std::to_string(i) + bound, std::to_string(i) + "b");
  };
  Status status;
  int next = 110;
  while (status.ok() && next < 190) status = delete_one(next++);
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_GE(next, 116);
  EXPECT_LT(next, 130);
  Flush();
  while (status.IsBusy() && next < 190) status = delete_one(next++);
  while (status.ok() && next < 190) status = delete_one(next++);
  EXPECT_TRUE(status.IsBusy()) << status.ToString() << ": they count in the version, too";
  DeleteRange("100", "101");
  EXPECT_EQ(All(), "199=1 ");
  db_->ReleaseSnapshot(snapshot);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  EXPECT_OK(delete_one(190));

  WriteBatch batch;
  for (int i = 0; i < 1025; ++i) batch.DeleteRange("a", "b");
  status = db_->Write(WriteOptions(), &batch);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
}

// Takes a snapshot and deletes a range when the first merge has read its tombstones.
class DeletionWithinMerge {
 public:
  explicit DeletionWithinMerge(DB* db) : db_(db) {
    running = this;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::string_view(place) != "merge: tombstones read") return;
      DeletionWithinMerge* const self = running.exchange(nullptr);
      if (self != nullptr) self->Run();
    };
  }
  ~DeletionWithinMerge() {
    port::SyncPointHookOfProcess() = nullptr;
    db_->ReleaseSnapshot(snapshot_);
  }
  const Snapshot* snapshot() const { return snapshot_; }

 private:
  void Run() {
    snapshot_ = db_->GetSnapshot();
    EXPECT_OK(db_->DeleteRange(WriteOptions(), "a", "z"));
    EXPECT_OK(db_->Flush(FlushOptions()));
  }

  static inline std::atomic<DeletionWithinMerge*> running = nullptr;
  DB* const db_;
  const Snapshot* snapshot_ = nullptr;
};

// Fails if a merge lists the snapshots before it reads the tombstones: then it knows of the range
// and not of the snapshot that still sees what is in it.
TEST_F(DeleteRangeTest, MergesKnowTheSnapshotsOfTheirTombstones) {
  for (const char* key : {"a", "b", "c"}) {
    Put(key, "1");
    Flush();
    Put(key, "2");
    Flush();
  }
  const DeletionWithinMerge deletion(db_.get());
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_OK(db_->WaitForBackgroundWork());
  ASSERT_NE(deletion.snapshot(), nullptr) << "there was no merge";
  EXPECT_EQ(All(deletion.snapshot()), "a=2 b=2 c=2 ");
  EXPECT_EQ(All(), "");
}

TEST_F(DeleteRangeTest, ByTheCInterface) {
  char* error = nullptr;
  dlsm_options_t* const options = dlsm_options_create();
  dlsm_options_set_create_if_missing(options, 1);
  dlsm_t* const db = dlsm_open(options, "ranges of c", &error);
  ASSERT_EQ(error, nullptr) << error;
  dlsm_writeoptions_t* const write = dlsm_writeoptions_create();
  dlsm_readoptions_t* const read = dlsm_readoptions_create();
  dlsm_put(db, write, "a", 1, "1", 1, &error);
  dlsm_put(db, write, "b", 1, "1", 1, &error);
  dlsm_delete_range(db, write, "a", 1, "b", 1, &error);
  ASSERT_EQ(error, nullptr) << error;
  size_t bytes = 0;
  EXPECT_EQ(dlsm_get(db, read, "a", 1, &bytes, &error), nullptr);
  dlsm_writebatch_t* const batch = dlsm_writebatch_create();
  dlsm_writebatch_delete_range(batch, "b", 1, "c", 1);
  dlsm_writebatch_set_save_point(batch);
  dlsm_writebatch_put(batch, "b", 1, "2", 1);
  dlsm_writebatch_rollback_to_save_point(batch, &error);
  ASSERT_EQ(error, nullptr) << error;
  dlsm_writebatch_pop_save_point(batch, &error);
  EXPECT_NE(error, nullptr) << "there is none left";
  dlsm_free(error);
  error = nullptr;
  dlsm_write(db, write, batch, &error);
  ASSERT_EQ(error, nullptr) << error;
  EXPECT_EQ(dlsm_get(db, read, "b", 1, &bytes, &error), nullptr);
  dlsm_delete_range(db, write, "c", 1, "a", 1, &error);
  EXPECT_NE(error, nullptr);
  dlsm_free(error);
  dlsm_writebatch_destroy(batch);
  dlsm_readoptions_destroy(read);
  dlsm_writeoptions_destroy(write);
  dlsm_close(db);
  dlsm_options_destroy(options);
}

// Reads from within a write, when it has reached the first of its shards.
class ReadWithinWrite {
 public:
  explicit ReadWithinWrite(DB* db) : db_(db) {
    running = this;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::string_view(place) != "batch: entry inserted") return;
      ReadWithinWrite* const self = running.exchange(nullptr);
      if (self == nullptr) return;
      EXPECT_OK(self->db_->Get(ReadOptions(), "a", &self->seen_));
    };
  }
  ~ReadWithinWrite() { port::SyncPointHookOfProcess() = nullptr; }
  const std::string& seen() const { return seen_; }

 private:
  static inline std::atomic<ReadWithinWrite*> running = nullptr;
  DB* const db_;
  std::string seen_;
};

// Fails if a reader finds a range deleted in one shard, and not yet in another.
TEST(DeleteRangeShardsTest, AllShardsAtOnce) {
  Options options = TinyOptions();
  options.shards = 2;
  options.shard_boundaries = {"h"};
  const std::string name = "ranges of shards";
  std::unique_ptr<DB> db = OpenOrDie(options, name);
  for (const char* key : {"a", "m"}) ASSERT_OK(db->Put(WriteOptions(), key, "1"));
  {
    const ReadWithinWrite read(db.get());
    ASSERT_OK(db->DeleteRange(WriteOptions(), "a", "z"));
    EXPECT_EQ(read.seen(), "1");
  }
  std::string value;
  for (const char* key : {"a", "m"}) {
    EXPECT_TRUE(db->Get(ReadOptions(), key, &value).IsNotFound()) << key;
  }
  CloseAndDestroy(&db, options, name);
}

// Each shard that the range touches is told, and followers are.
TEST(DeleteRangeShardsTest, SpansShardsAndReachesFollowers) {
  Options options = OwnerOptions();
  const std::unique_ptr<TestNode> node = NodeServing("shm", &options);
  options.shards = 3;
  options.shard_boundaries = {"h", "p"};
  const std::string name = "ranges of shards";
  std::unique_ptr<DB> db = OpenOrDie(options, name);
  for (char key = 'a'; key <= 'z'; ++key) {
    ASSERT_OK(db->Put(WriteOptions(), std::string(1, key), "1"));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  const Snapshot* const before = db->GetSnapshot();  // So that the follower needs the tombstones.
  ASSERT_OK(db->DeleteRange(WriteOptions(), "c", "x"));
  const auto left = [](DB* from) {
    std::string keys;
    const std::unique_ptr<Iterator> iterator(from->NewIterator(ReadOptions()));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      keys += iterator->key().ToString();
    }
    return keys;
  };
  EXPECT_EQ(left(db.get()), "abxyz");
  Options follower_options = FollowerOptions();
  follower_options.memory_nodes = options.memory_nodes;
  follower_options.fabric = options.fabric;
  const std::unique_ptr<DB> follower = FollowOrDie(follower_options, name);
  CatchUpWith(db.get(), follower.get());
  EXPECT_TRUE(left(follower.get()).starts_with("abxyz"));  // Behind it is a mark of CatchUpWith().
  std::string value;
  EXPECT_TRUE(follower->Get(ReadOptions(), "m", &value).IsNotFound());
  EXPECT_FALSE(follower->DeleteRange(WriteOptions(), "a", "b").ok());
  db->ReleaseSnapshot(before);
  EXPECT_OK(follower->Close());
  CloseAndDestroy(&db, options, name);
}

}  // namespace
}  // namespace dlsm
