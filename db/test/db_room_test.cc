// A memory node without room that has some again: who goes on by itself, and who waits how long.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "dLSM/comparator.h"
#include "dLSM/write_batch.h"
#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// A publication names the first and the last key of each table, which in an order of the
// application's own are whole keys. So with a few such keys it is larger than the rest of any grant
// and than the reserve: it cannot do without another grant.
class OwnOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "test.OwnOrder"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};
std::string LongKey(int number) {
  return "key" + std::to_string(1000 + number) + std::string(500'000, 'k');
}

class RoomTest : public testing::Test {
 protected:
  void SetUp() override { StartNode(TestNode::Config().lease); }
  void StartNode(std::chrono::nanoseconds lease) {
    TestNode::Config config;
    config.lease = lease;
    config.refuse_extent = [this] { return Refuses(); };
    node_ = std::make_unique<TestNode>(config);
  }
  // Nothing but flushes and publications asks for memory.
  Options OwnerOptions() {
    Options options = node_->With(TinyOptions(), "tcp");
    options.level0_file_num_compaction_trigger = 1000;
    options.level0_stop_writes_trigger = 2000;
    return options;
  }
  Options LongKeyOptions() {
    Options options = OwnerOptions();
    options.comparator = &own_order_;
    return options;
  }
  bool Refuses() {
    if (!refusing_ || Clock::now() > refusing_until_.load()) return false;
    ++refusals_;
    return refusals_left_.fetch_sub(1) > 0;
  }
  void PutAndFlush(int number) {
    ASSERT_OK(db_->Put(WriteOptions(), LongKey(number), "v"));
    ASSERT_OK(db_->Flush(FlushOptions()));
  }
  // One that is soon full, and who uses it.
  static TestNode::Config SmallNode() {
    TestNode::Config config;
    config.bytes = uint64_t{24} << 20;
    return config;
  }
  static Options OptionsAt(const TestNode& node, CompactionStyle style) {
    Options options = node.With(TinyOptions(), "shm");
    options.compaction_style = style;
    options.write_stall_timeout_ms = 500;
    return options;
  }
  // Above all before it: a merge of tables that do not overlap makes no room.
  std::string NextKey() { return "next" + NumberedKey(++next_); }
  void Compact() {
    CompactAsRoomAllows(db_.get());
    db_->WaitForBackgroundWork().PermitUncheckedError();  // Some merge may not have found room.
  }
  // Until nothing more is taken though all of it is merged as far as it can be. An empty memtable
  // takes some all the same, so the first refusal need not be the end.
  void FillUp() {
    bool full = false;
    for (int round = 0; round < 100 && !full; ++round) {
      Status put;
      do {
        put = db_->Put(WriteOptions(), NextKey(), std::string(1000, 'v'));
      } while (put.ok());
      ASSERT_TRUE(put.IsBusy()) << put.ToString();
      Compact();
      full = db_->Put(WriteOptions(), NextKey(), std::string(1000, 'v')).IsBusy();
    }
    ASSERT_TRUE(full);
  }
  // There is room again, or soon.
  void ExpectAPut() {
    Status put;
    EXPECT_TRUE(Eventually([&] {
      put = db_->Put(WriteOptions(), NextKey(), std::string(1000, 'v'));
      return put.ok();
    })) << put.ToString();
  }
  // Less room than a memtable of db_ needs. *filler has the rest.
  void FillBesideALargeMemtable(const TestNode& node, std::unique_ptr<DB>* filler) {
    db_ = OpenOrDie(TightOptions(node), "db");
    *filler = OpenOrDie(TightOptions(node), "filler");
    const auto left = [&] {
      return kTightBytes - DefaultMergeReserve(kTightBytes) -
             FieldOfProperty(db_.get(), "dlsm.memory-node", "used");
    };
    for (uint64_t i = 0; left() > uint64_t{3} << 20; ++i) {
      ASSERT_OK((*filler)->Put(WriteOptions(), NumberedKey(i), std::string(400'000, 'f')));
      ASSERT_OK((*filler)->Flush(FlushOptions()));
    }
    WriteBatch large;
    for (uint64_t i = 0; i < 12000; ++i) large.Put(NumberedKey(i), std::string(1000, 'v'));
    ASSERT_OK(db_->Write(WriteOptions(), &large));
  }
  // Of what does not fit, while nobody waits for it.
  void ExpectFewTries() {
    const auto tries = [this] { return db_->GetStatistics()->Get(Ticker::kRetries); };
    ASSERT_TRUE(Eventually([&tries] { return tries() > 0; }));
    const uint64_t before = tries();
    std::this_thread::sleep_for(seconds(3));
    EXPECT_GE(tries(), before + 2);
    EXPECT_LE(tries(), before + 10);
  }
  void DestroyFiller(const TestNode& node, std::unique_ptr<DB>* filler) {
    ASSERT_OK((*filler)->Close());
    filler->reset();
    ASSERT_OK(DestroyDB("filler", TightOptions(node)));
  }
  static TestNode::Config TightNode() {
    TestNode::Config config;
    config.bytes = kTightBytes;
    return config;
  }
  Options TightOptions(const TestNode& node) {
    Options options = node.With(OwnerOptions(), "shm");
    options.write_stall_timeout_ms = 1000;
    return options;
  }
  std::string Publications() {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("dlsm.publications", &text));
    return text;
  }
  // The first publication has been made, and the next one is that of Close().
  void OpenAndWaitForTheLastPublication(uint64_t write_stall_timeout_ms) {
    Options options = LongKeyOptions();
    options.publish_interval_ms = 3'600'000;
    options.write_stall_timeout_ms = write_stall_timeout_ms;
    db_ = OpenOrDie(options, "db");
    ASSERT_TRUE(Eventually(
        [this] { return FieldOfProperty(db_.get(), "dlsm.publications", "number") > 0; }));
    for (int i = 0; i < 3; ++i) PutAndFlush(i);
    ASSERT_OK(db_->WaitForBackgroundWork());
  }

  static constexpr uint64_t kTightBytes = uint64_t{48} << 20;

  OwnOrder own_order_;
  uint64_t next_ = 0;
  std::atomic<bool> refusing_{false};
  std::atomic<int> refusals_left_{1'000'000};
  std::atomic<Clock::time_point> refusing_until_{Clock::time_point::max()};
  std::atomic<int> refusals_{0};
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
};

// What a killed follower keeps is free once its lease has ended. Fails if Close() does not wait for
// that where it is the last publication that has no room, though everything is flushed.
TEST_F(RoomTest, CloseWaitsForRoomForItsPublication) {
  OpenAndWaitForTheLastPublication(/*write_stall_timeout_ms=*/30'000);
  refusals_left_ = 5;
  refusing_ = true;
  EXPECT_OK(db_->Close());
  EXPECT_GT(refusals_, 5) << "it did not need more memory";
  db_.reset();
  refusing_ = false;
  std::unique_ptr<DB> follower;
  Options options = node_->With(TinyOptions(), "tcp");
  options.follow_interval_ms = 0;
  options.comparator = &own_order_;
  ASSERT_OK(DB::OpenFollower(options, "db", &follower));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(GetOr(follower.get(), LongKey(i)), "v");
}

// Fails if Close() waits as long as writers would, though followers cannot be what it waits for any
// more.
TEST_F(RoomTest, CloseWaitsNoLongerThanFollowersMayKeepMemory) {
  StartNode(/*lease=*/seconds(1));
  OpenAndWaitForTheLastPublication(/*write_stall_timeout_ms=*/100'000'000);
  refusing_until_ = Clock::now() + seconds(60);
  refusing_ = true;
  const Status closed = db_->Close();
  EXPECT_TRUE(closed.IsBusy()) << closed.ToString();
  EXPECT_GT(refusals_, 1) << "once more than the first time";
}

// The memory node is full, everything has been flushed and nothing is to be merged; then a
// publication is the first to be granted memory again. Fails if writers are not let through, for
// whom nobody else asks.
TEST_F(RoomTest, WritersGoOnWhenAPublicationHasFoundRoom) {
  Options options = LongKeyOptions();
  options.publish_interval_ms = 1;  // Many attempts for each one of those who keep the house.
  options.write_stall_timeout_ms = 200;
  db_ = OpenOrDie(options, "db");
  for (int i = 0; i < 2; ++i) PutAndFlush(i);
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    refusing_ = true;
    ASSERT_OK(db_->Put(WriteOptions(), NextKey(), "published in vain"));
    ASSERT_TRUE(
        Eventually([this] { return Publications().find("error Busy") != std::string::npos; }));
    // The next flush has the reserve, and finds the memory node full.
    Status refused;
    while (refused.ok()) {
      refused = db_->Put(WriteOptions(), NextKey(), "flushed or refused");
      if (refused.ok()) {
        ASSERT_OK(db_->Flush(FlushOptions()));
      }
      // Merges that would make room find none for their outputs.
      const Status idle = db_->WaitForBackgroundWork();
      ASSERT_TRUE(idle.ok() || idle.IsBusy()) << idle.ToString();
    }
    ASSERT_TRUE(refused.IsBusy()) << refused.ToString();
    refusing_ = false;
    Status last;
    const std::string key = NextKey();
    EXPECT_TRUE(Eventually([&] {
      last = db_->Put(WriteOptions(), key, "again");
      return last.ok();
    })) << last.ToString();
    EXPECT_TRUE(
        Eventually([this] { return Publications().find("error OK") != std::string::npos; }));
  }
  EXPECT_OK(db_->Close());
}

// A memtable for which there is not enough room cannot be flushed. Each attempt gives back what it
// had taken. Fails if that is taken for room that has come: who waits for the flush would do so for
// ever.
TEST_F(RoomTest, AFlushThatDoesNotFitIsNotWaitedForForEver) {
  const TestNode node(TightNode());
  std::unique_ptr<DB> filler;
  ASSERT_NO_FATAL_FAILURE(FillBesideALargeMemtable(node, &filler));
  const auto start = Clock::now();
  const Status flushed = db_->Flush(FlushOptions());
  EXPECT_TRUE(flushed.IsBusy()) << flushed.ToString();
  const Status waited = db_->WaitForBackgroundWork();
  EXPECT_TRUE(waited.IsBusy()) << waited.ToString();
  EXPECT_LT(Clock::now() - start, seconds(30));
  ASSERT_NO_FATAL_FAILURE(DestroyFiller(node, &filler));
  ASSERT_OK(db_->Flush(FlushOptions()));
  for (uint64_t i = 0; i < 12000; i += 100) {
    EXPECT_EQ(GetOr(db_.get(), NumberedKey(i)), std::string(1000, 'v'));
  }
  db_.reset();  // Before its memory node.
}

// The same while nobody waits. Fails if it is tried at each look at the memory node, ten times a
// second, or not soon once there is room.
TEST_F(RoomTest, AFlushThatDoesNotFitIsTriedEverMoreRarelyWhileNobodyWaits) {
  const TestNode node(TightNode());
  std::unique_ptr<DB> filler;
  ASSERT_NO_FATAL_FAILURE(FillBesideALargeMemtable(node, &filler));
  ASSERT_NO_FATAL_FAILURE(ExpectFewTries());
  ASSERT_NO_FATAL_FAILURE(DestroyFiller(node, &filler));
  EXPECT_TRUE(Eventually([this] { return db_->GetStatistics()->Get(Ticker::kFlushes) > 0; }));
  db_.reset();  // Before its memory node.
}

// Writers have been refused because a full memtable has found no room; then they are gone. Fails if
// it is flushed only once somebody writes again, or asks for it.
TEST_F(RoomTest, AFlushThatFoundNoRoomIsDoneOnceThereIsSome) {
  Options options = OwnerOptions();
  options.write_stall_timeout_ms = 100;
  db_ = OpenOrDie(options, "db");
  refusing_ = true;
  WriteBatch large;  // For the reserve.
  for (uint64_t i = 0; i < 3000; ++i) large.Put(NumberedKey(i), std::string(1000, 'v'));
  ASSERT_OK(db_->Write(WriteOptions(), &large));
  ASSERT_TRUE(
      Eventually([this] { return db_->Put(WriteOptions(), NextKey(), "refused").IsBusy(); }));
  ASSERT_EQ(db_->GetStatistics()->Get(Ticker::kFlushes), 0u);
  refusing_ = false;
  EXPECT_TRUE(Eventually([this] { return db_->GetStatistics()->Get(Ticker::kFlushes) > 0; }));
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(7)), std::string(1000, 'v'));
}

// Several shards, none of which has room.
class RoomOfShardsTest : public RoomTest {
 protected:
  static constexpr milliseconds kPatience{3000};
  static constexpr const char* kShards[] = {"a", "b", "c", "d", "e", "f"};

  Options ShardOptions() {
    Options options = OwnerOptions();
    options.max_write_buffer_number = 8;
    options.shard_boundaries = {"b", "c", "d", "e", "f"};
    options.write_stall_timeout_ms = static_cast<uint64_t>(kPatience.count());
    return options;
  }
  void PutInEach(const std::string& value) {
    for (const char* shard : kShards) ASSERT_OK(db_->Put(WriteOptions(), shard, value));
  }
  // Fails if each shard is waited for as long as one, one after the other.
  template <typename Call>
  void ExpectOnePatience(const char* what, const Call& call) {
    SCOPED_TRACE(what);
    const auto start = Clock::now();
    call();
    const auto took = Clock::now() - start;
    EXPECT_GE(took, kPatience);
    EXPECT_LT(took, 4 * kPatience);
  }
};

// For their memtables.
TEST_F(RoomOfShardsTest, AreWaitedForAsLongAsOne) {
  db_ = OpenOrDie(ShardOptions(), "db");
  for (int round = 0; round < 2; ++round) {
    for (const char* shard : kShards) {
      WriteBatch large;  // For its part of the reserve, which has become as large as it gets.
      for (uint64_t i = 0; i < 3000; ++i) large.Put(shard + NumberedKey(i), std::string(1000, 'v'));
      ASSERT_OK(db_->Write(WriteOptions(), &large));
    }
    if (round == 0) {
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
    refusing_ = true;
  }
  ExpectOnePatience("Flush", [this] {
    const Status flushed = db_->Flush(FlushOptions());
    EXPECT_TRUE(flushed.IsBusy()) << flushed.ToString();
  });
  ExpectOnePatience("WaitForBackgroundWork", [this] {
    const Status waited = db_->WaitForBackgroundWork();
    EXPECT_TRUE(waited.IsBusy()) << waited.ToString();
  });
  ExpectOnePatience("CompactRange", [this] {
    const Status compacted = db_->CompactRange(nullptr, nullptr);
    EXPECT_TRUE(compacted.IsBusy()) << compacted.ToString();
  });
  refusing_ = false;
  ASSERT_OK(db_->Flush(FlushOptions()));
  for (const char* shard : kShards) {
    EXPECT_EQ(GetOr(db_.get(), shard + NumberedKey(7)), std::string(1000, 'v'));
  }
}

// For what merges that are due would write.
TEST_F(RoomOfShardsTest, MergesAreWaitedForAsLongAsOne) {
  Options options = ShardOptions();
  options.compaction_style = CompactionStyle::kLeveled;
  options.compaction_place = CompactionPlace::kMemoryNode;
  options.level0_file_num_compaction_trigger = 2;
  db_ = OpenOrDie(options, "db");
  PutInEach("first");
  ASSERT_OK(db_->Flush(FlushOptions()));
  PutInEach("second");
  refusing_ = true;
  ASSERT_OK(db_->Flush(FlushOptions()));  // Into what has been granted, or the reserve.
  ExpectOnePatience("WaitForBackgroundWork", [this] {
    const Status waited = db_->WaitForBackgroundWork();
    EXPECT_TRUE(waited.IsBusy()) << waited.ToString();
  });
  refusing_ = false;
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.num-files-at-level0"), 0u);
  for (const char* shard : kShards) EXPECT_EQ(GetOr(db_.get(), shard), "second");
}

// What a snapshot keeps fills the memory node together with what others have, all of it merged as
// far as it can be. Fails if it stays once the snapshot is released: no write would be let through
// again.
TEST_F(RoomTest, WhatASnapshotKeptMakesRoomOnceItIsReleased) {
  for (const CompactionStyle style : {CompactionStyle::kLeveled, CompactionStyle::kGuards}) {
    SCOPED_TRACE(static_cast<int>(style));
    const TestNode node(SmallNode());
    const Options options = OptionsAt(node, style);
    db_ = OpenOrDie(options, "db");
    const std::string value(1000, 'v');
    constexpr uint64_t kKeys = 6000;
    // A loaded machine may take longer than writers wait here.
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(Eventually([&] { return db_->Put(WriteOptions(), NumberedKey(i), value).ok(); }));
    }
    const Snapshot* const snapshot = db_->GetSnapshot();
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(Eventually([&] { return db_->Delete(WriteOptions(), NumberedKey(i)).ok(); }));
    }
    Compact();
    EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), 2 * kKeys);
    ASSERT_NO_FATAL_FAILURE(FillUp());  // The rest is for what stays.
    db_->ReleaseSnapshot(snapshot);
    ExpectAPut();
    db_.reset();  // Before its memory node.
  }
}

// The same of a database that nobody writes to, beside one that needs the room. Fails if it stays:
// the first has been refused nothing, and nobody else could give it back.
TEST_F(RoomTest, WhatASnapshotKeptMakesRoomForAnotherDatabase) {
  for (const CompactionStyle style : {CompactionStyle::kLeveled, CompactionStyle::kGuards}) {
    SCOPED_TRACE(static_cast<int>(style));
    const TestNode node(SmallNode());
    const Options options = OptionsAt(node, style);
    const auto idle = OpenOrDie(options, "idle");
    constexpr uint64_t kKeys = 3000;
    const auto put_all = [&idle](char version) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_TRUE(Eventually([&] {
          return idle->Put(WriteOptions(), NumberedKey(i), std::string(1000, version)).ok();
        }));
      }
    };
    put_all('1');
    const Snapshot* const snapshot = idle->GetSnapshot();
    put_all('2');
    CompactAsRoomAllows(idle.get());
    ASSERT_OK(idle->WaitForBackgroundWork());
    ASSERT_EQ(NumberProperty(idle.get(), "dlsm.entries"), 2 * kKeys);
    db_ = OpenOrDie(options, "db");
    ASSERT_NO_FATAL_FAILURE(FillUp());
    ASSERT_EQ(NumberProperty(idle.get(), "dlsm.entries"), 2 * kKeys) << "it is still seen";
    idle->ReleaseSnapshot(snapshot);
    EXPECT_TRUE(
        Eventually([&idle] { return NumberProperty(idle.get(), "dlsm.entries") < 2 * kKeys; }));
    ExpectAPut();
    for (uint64_t i = 0; i < kKeys; i += 100) {
      EXPECT_EQ(GetOr(idle.get(), NumberedKey(i)), std::string(1000, '2'));
    }
    db_.reset();  // Before its memory node.
  }
}

}  // namespace
}  // namespace dlsm
