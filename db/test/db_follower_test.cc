// Followers: read-only handles that follow what a database's owner publishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class FollowerTest : public testing::TestWithParam<std::string> {
 protected:
  FollowerTest() { node_ = NodeServing(GetParam(), &owner_options_); }
  void SetUp() override {
    follower_options_.memory_nodes = owner_options_.memory_nodes;
    follower_options_.fabric = owner_options_.fabric;
  }
  void TearDown() override {
    if (follower_ != nullptr) {
      EXPECT_OK(follower_->Close());
    }
    CloseAndDestroy(&owner_, owner_options_, "followed");
  }
  void OpenBoth() {
    owner_ = OpenOrDie(owner_options_, "followed");
    follower_ = FollowOrDie(follower_options_, "followed");
  }
  void CatchUp() { CatchUpWith(owner_.get(), follower_.get()); }
  uint64_t LastPublished() { return FieldOfProperty(owner_.get(), "dlsm.publications", "number"); }
  // Until the owner has published what merges have changed, too.
  void AwaitNothingNew() {
    ASSERT_OK(owner_->WaitForBackgroundWork());
    EXPECT_TRUE(Eventually([this] {
      const uint64_t before = LastPublished();
      std::this_thread::sleep_for(milliseconds(100));
      return LastPublished() == before;
    }));
  }

  Options owner_options_ = OwnerOptions();
  Options follower_options_ = FollowerOptions();
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> owner_;
  std::unique_ptr<DB> follower_;
};

// Fails if a follower does not show what was published, shows more, or misses a deletion.
TEST_P(FollowerTest, ShowsWhatWasPublished) {
  OpenBoth();
  EXPECT_EQ(GetOr(follower_.get(), "a"), "(none)");
  ASSERT_OK(owner_->Put(WriteOptions(), "a", "1"));
  ASSERT_OK(owner_->Put(WriteOptions(), "b", "2"));
  EXPECT_EQ(GetOr(follower_.get(), "a"), "(none)");
  CatchUp();
  EXPECT_EQ(GetOr(follower_.get(), "a"), "1");
  const Snapshot* const snapshot = follower_->GetSnapshot();
  ASSERT_OK(owner_->Delete(WriteOptions(), "a"));
  ASSERT_OK(owner_->Put(WriteOptions(), "b", "3"));
  CatchUp();
  EXPECT_EQ(GetOr(follower_.get(), "a"), "(none)");
  ReadOptions as_before;
  as_before.snapshot = snapshot;
  EXPECT_EQ(GetOr(follower_.get(), "a", as_before), "1");
  EXPECT_EQ(GetOr(follower_.get(), "b", as_before), "2");
  follower_->ReleaseSnapshot(snapshot);
  PinnableSlice pinned;
  ASSERT_OK(follower_->Get(ReadOptions(), "b", &pinned));
  EXPECT_EQ(pinned.ToString(), "3");
  std::vector<std::string> values;
  const std::vector<Status> statuses = follower_->MultiGet(ReadOptions(), {"a", "b"}, &values);
  EXPECT_TRUE(statuses[0].IsNotFound());
  EXPECT_OK(statuses[1]);
  EXPECT_EQ(values[1], "3");
  const Slice keys[] = {"a", "b"};
  PinnableSlice many[2];
  Status of_many[2];
  follower_->MultiGet(ReadOptions(), 2, keys, many, of_many);
  EXPECT_TRUE(of_many[0].IsNotFound());
  EXPECT_OK(of_many[1]);
  EXPECT_EQ(many[1].ToString(), "3");
  EXPECT_FALSE(many[1].IsPinned());  // A follower reads nothing in place.
  const std::unique_ptr<Iterator> all(follower_->NewIterator(ReadOptions()));
  all->SeekToFirst();
  ASSERT_TRUE(all->Valid());
  EXPECT_EQ(all->key().ToString(), "b");
}

// Fails if the value of one get, as the key of the next one that puts its value in the same place,
// is gone before it is looked up.
TEST_P(FollowerTest, AValueMayBeTheKeyOfTheNextGet) {
  OpenBoth();
  ASSERT_OK(owner_->Put(WriteOptions(), "", "what is at the empty key"));
  ASSERT_OK(owner_->Put(WriteOptions(), "a", "b"));
  ASSERT_OK(owner_->Put(WriteOptions(), "b", "c"));
  CatchUp();
  PinnableSlice value;
  ASSERT_OK(follower_->Get(ReadOptions(), "a", &value));
  ASSERT_OK(follower_->Get(ReadOptions(), value, &value));
  EXPECT_EQ(value.ToString(), "c");
  EXPECT_TRUE(follower_->Get(ReadOptions(), value, &value).IsNotFound());
  EXPECT_TRUE(value.empty());
}

// Fails, where all have to be looked at (DLSM_CHECK_STATUSES), if there is a Status of no key.
TEST_P(FollowerTest, MultiGetOfNoKeys) {
  OpenBoth();
  for (DB* const db : {owner_.get(), follower_.get()}) {
    std::vector<std::string> values = {"from before"};
    EXPECT_TRUE(db->MultiGet(ReadOptions(), std::vector<Slice>(), &values).empty());
    EXPECT_TRUE(values.empty());
    db->MultiGet(ReadOptions(), 0, nullptr, nullptr, nullptr);
  }
}

// Readers and a writer at once, over four shards. Fails if a read mixes two states, goes back in
// time, or an iterator changes while publications, flushes and merges go on.
TEST_P(FollowerTest, EveryReadIsOfOnePoint) {
  UseShards(&owner_options_, 4);
  follower_options_.follow_interval_ms = 3;
  OpenBoth();
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      int last = -1;
      while (!stop.load()) {
        const int number = NumberOf(follower_.get());
        EXPECT_GE(number, last);
        last = number;
      }
    });
  }
  readers.emplace_back([&] {
    while (!stop.load()) {
      const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
      const int number = NumberOf(iterator.get());
      std::this_thread::sleep_for(milliseconds(30));
      EXPECT_EQ(NumberOf(iterator.get()), number);
    }
  });
  Batches batches;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < until && !HasFailure()) {
    ASSERT_OK(batches.Write(owner_.get()));
  }
  EXPECT_TRUE(Eventually([&] { return NumberOf(follower_.get()) == batches.number(); }));
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(follower_->GetStatistics()->Get(Ticker::kCatchUps), 10u);
  EXPECT_GT(owner_->GetStatistics()->Get(Ticker::kMergesRemote), 0u);
}

// Fails if an iterator or a snapshot is not kept while everything that it reads is overwritten,
// merged and given back.
TEST_P(FollowerTest, OldReadsStayExact) {
  OpenBoth();
  Batches batches;
  for (int i = 0; i < 200; ++i) ASSERT_OK(batches.Write(owner_.get()));
  CatchUp();
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  const Snapshot* const snapshot = follower_->GetSnapshot();
  const int number = batches.number();
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 200; ++i) ASSERT_OK(batches.Write(owner_.get()));
    ASSERT_OK(owner_->CompactRange(nullptr, nullptr));
    CatchUp();
    ASSERT_EQ(NumberOf(iterator.get()), number);
    ReadOptions as_before;
    as_before.snapshot = snapshot;
    ASSERT_EQ(GetOr(follower_.get(), Batches::Key(5), as_before), std::to_string(number));
    ASSERT_EQ(NumberOf(follower_.get()), batches.number());
  }
  follower_->ReleaseSnapshot(snapshot);
}

// Fails if a follower does not know LevelDB's names of properties, gives more than a number where
// that is one, or leaves the levels out of "stats".
TEST_P(FollowerTest, AnswersToLevelDbNames) {
  OpenBoth();
  CatchUp();
  std::string text;
  std::string levels;
  EXPECT_TRUE(follower_->GetProperty("leveldb.sstables", &levels));
  EXPECT_TRUE(follower_->GetProperty("leveldb.stats", &text));
  const std::string heading = levels.substr(0, levels.find('\n'));
  EXPECT_THAT(heading, HasSubstr("tables"));
  EXPECT_THAT(text, HasSubstr(heading));
  ASSERT_TRUE(follower_->GetProperty("leveldb.approximate-memory-usage", &text));
  EXPECT_EQ(text, std::to_string(NumberProperty(follower_.get(), "dlsm.metadata-bytes")));
}

// Fails if a follower does not know what its memory node has spent, or takes one within its own
// process for another.
TEST_P(FollowerTest, TellsTheProcessorTimeOfItsMemoryNode) {
  OpenBoth();
  EXPECT_EQ(NumberProperty(follower_.get(), "dlsm.remote-cpu-micros") > 0, !GetParam().empty());
}

// Fails if a catch-up needs a call, or one that finds nothing new more than one small transfer.
TEST_P(FollowerTest, FollowingNeedsNoCalls) {
  OpenBoth();
  CatchUp();
  const auto calls = [&] {
    std::map<std::string, int> counts;
    std::string text;
    EXPECT_TRUE(follower_->GetProperty("dlsm.rpc", &text));
    std::istringstream lines(text);
    std::string name;
    int count;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      if (fields >> name >> count && count > 0) counts[name] = count;
    }
    counts.erase("reader_heartbeat");
    return counts;
  };
  const auto transfers = [&] {
    std::string text;
    EXPECT_TRUE(follower_->GetProperty("dlsm.wire", &text));
    std::istringstream fields(text.substr(text.find("publication ") + 12));
    std::vector<int> numbers(5);
    for (int& number : numbers) fields >> number;
    return numbers;
  };
  const std::map<std::string, int> before = calls();
  EXPECT_EQ(before.contains("open_reader"), !GetParam().empty());
  for (int i = 0; i < 10; ++i) CatchUp();
  EXPECT_EQ(calls(), before);
  AwaitNothingNew();
  ASSERT_OK(follower_->TryCatchUp());
  const std::vector<int> idle_before = transfers();
  for (int i = 0; i < 10; ++i) ASSERT_OK(follower_->TryCatchUp());
  const std::vector<int> idle = transfers();
  EXPECT_EQ(idle[0] - idle_before[0], 10) << "round trips";
  EXPECT_EQ(idle[1] - idle_before[1], 10) << "work requests";
  EXPECT_EQ(idle[3] - idle_before[3], 80) << "bytes";
  EXPECT_EQ(calls(), before);
}

// Fails if an owner without writes publishes all the time.
TEST_P(FollowerTest, NothingNewIsNotPublished) {
  OpenBoth();
  CatchUp();
  AwaitNothingNew();
  const uint64_t number = LastPublished();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(LastPublished(), number);
  EXPECT_LT(FieldOfProperty(owner_.get(), "dlsm.publications", "age-ms"), 2000u);
  ASSERT_OK(follower_->TryCatchUp());
  EXPECT_EQ(FieldOfProperty(follower_.get(), "dlsm.follower", "number"), number);
}

// Fails if a call that would change the database does anything, or does not say what to do.
TEST_P(FollowerTest, RefusesToWrite) {
  OpenBoth();
  WriteBatch batch;
  batch.Put("a", "1");
  for (const Status& refused :
       {follower_->Put(WriteOptions(), "a", "1"), follower_->Delete(WriteOptions(), "a"),
        follower_->Write(WriteOptions(), &batch), follower_->Flush(FlushOptions()),
        follower_->CompactRange(nullptr, nullptr),
        follower_->SetOptions({{"merge_scheduler", "fair"}})}) {
    EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
    EXPECT_THAT(refused.ToString(), HasSubstr("owner"));
  }
  EXPECT_OK(follower_->WaitForBackgroundWork());
  EXPECT_OK(owner_->TryCatchUp());
  EXPECT_EQ(GetOr(owner_.get(), "a"), "(none)");
}

// Fails if followers are in each other's way, or one that closes takes another's memory along.
TEST_P(FollowerTest, SeveralFollow) {
  OpenBoth();
  Batches batches;
  for (int i = 0; i < 100; ++i) ASSERT_OK(batches.Write(owner_.get()));
  auto second = FollowOrDie(follower_options_, "followed");
  CatchUpWith(owner_.get(), second.get());
  CatchUp();
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  const int number = batches.number();
  EXPECT_OK(second->Close());
  EXPECT_TRUE(second->TryCatchUp().IsInvalidArgument());
  EXPECT_TRUE(second->Put(WriteOptions(), "a", "b").IsNotSupported());
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 100; ++i) ASSERT_OK(batches.Write(owner_.get()));
    ASSERT_OK(owner_->CompactRange(nullptr, nullptr));
    ASSERT_EQ(NumberOf(iterator.get()), number);
  }
}

// Fails if what was loaded and closed cannot be followed, if another owner's start disturbs who
// follows already, or if what is no longer kept is read.
TEST_P(FollowerTest, OutlivesItsOwner) {
  UseShards(&owner_options_, 2);
  owner_ = OpenOrDie(owner_options_, "followed");
  Batches batches;
  for (int i = 0; i < 300; ++i) ASSERT_OK(batches.Write(owner_.get()));
  ASSERT_OK(owner_->Close());
  follower_ = FollowOrDie(follower_options_, "followed");
  EXPECT_EQ(NumberOf(follower_.get()), 300);
  const uint64_t number = FieldOfProperty(follower_.get(), "dlsm.follower", "number");
  // An owner that does not publish.
  Options silent = owner_options_;
  silent.publish_interval_ms = 0;
  owner_ = OpenOrDie(silent, "followed");
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  for (int i = 0; i < 300; ++i) ASSERT_OK(batches.Write(owner_.get()));
  ASSERT_OK(owner_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(NumberOf(iterator.get()), 300);
  ASSERT_OK(follower_->TryCatchUp());
  EXPECT_EQ(NumberOf(follower_.get()), 300);
  follower_options_.open_timeout_ms = 200;
  std::unique_ptr<DB> late;
  const Status unpublished = DB::OpenFollower(follower_options_, "followed", &late);
  EXPECT_TRUE(unpublished.IsBusy()) << unpublished.ToString();
  EXPECT_THAT(unpublished.ToString(), HasSubstr("publish_interval_ms"));
  ASSERT_OK(owner_->Close());
  owner_ = OpenOrDie(owner_options_, "followed");
  CatchUp();
  EXPECT_EQ(NumberOf(follower_.get()), 600);
  EXPECT_EQ(NumberOf(iterator.get()), 300);
  EXPECT_GT(FieldOfProperty(follower_.get(), "dlsm.follower", "number"), number);
  ASSERT_OK(DB::OpenFollower(follower_options_, "followed", &late));
  EXPECT_EQ(NumberOf(late.get()), 600);
}

// Fails if what cannot be followed is not named, or takes long.
TEST_P(FollowerTest, SaysWhatCannotBeFollowed) {
  follower_options_.open_timeout_ms = 100;
  std::unique_ptr<DB> db;
  Status status = DB::OpenFollower(follower_options_, "nobody's", &db);
  EXPECT_TRUE(status.IsNotFound()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("nobody's"));
  owner_options_.publish_interval_ms = 0;
  owner_ = OpenOrDie(owner_options_, "followed");
  status = DB::OpenFollower(follower_options_, "followed", &db);
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("not been published"));
  EXPECT_EQ(db, nullptr);
  ASSERT_OK(owner_->Close());
  owner_options_.publish_interval_ms = 5;
  owner_ = OpenOrDie(owner_options_, "followed");
  Options other = follower_options_;
  other.filter_policy = Options::kNoFilter;
  other.open_timeout_ms = 10000;
  status = DB::OpenFollower(other, "followed", &db);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("filter policy"));
}

// Each transfer of a publication fails once, in turn. Fails if one that was cut short is taken for
// whole, memory that it names is given back, or the owner does not publish any more.
TEST_P(FollowerTest, PublicationsThatFailAreMadeGood) {
  owner_options_.fault_injector = std::make_shared<FaultInjector>();
  FaultInjector& faults = *owner_options_.fault_injector;
  OpenBoth();
  faults.OnlyPurpose(Purpose::kPublication);
  Batches batches;
  for (uint64_t n = 1; n < 25; ++n) {
    SCOPED_TRACE(n);
    faults.FailNth(n, n % 2 == 0 ? FaultKind::kHalfWrite : FaultKind::kDisconnect);
    for (int i = 0; i < 20; ++i) ASSERT_OK(batches.Write(owner_.get()));
    ASSERT_OK(owner_->CompactRange(nullptr, nullptr));
    CatchUp();
    ASSERT_EQ(NumberOf(follower_.get()), batches.number());
  }
  EXPECT_GE(faults.CountFaults(), 15u) << "transfers of one publication";
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FollowerTest, testing::Values("", "shm", "tcp"),
                         [](const auto& param) {
                           return param.param.empty() ? "embedded" : param.param;
                         });

}  // namespace
}  // namespace dlsm
