// Followers: read-only handles that follow what a database's owner publishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/publication.h"
#include "db/test_database_testing.h"
#include "port/sync_point.h"
#include "util/fabric/fault_injector.h"
#include "util/random.h"
#include "util/rpc/database_header.h"
#include "util/rpc/messages.h"
#include "util/rpc/node_connection.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return condition();
}

Options OwnerOptions() {
  Options options = TinyOptions();
  options.publish_interval_ms = 5;
  return options;
}

Options FollowerOptions() {
  Options options = TinyOptions();
  options.follow_interval_ms = 0;
  return options;
}

std::unique_ptr<DB> FollowOrDie(const Options& options, const std::string& name) {
  std::unique_ptr<DB> db;
  const Status status = DB::OpenFollower(options, name, &db);
  EXPECT_OK(status);
  if (!status.ok()) std::abort();
  return db;
}

// Goes on to a publication that has all that the owner has written so far.
void CatchUpWith(DB* owner, DB* follower) {
  static std::atomic<uint64_t> marks{0};
  const std::string mark = std::to_string(++marks);
  ASSERT_OK(owner->Put(WriteOptions(), "~mark", mark));
  EXPECT_TRUE(Eventually([&] {
    EXPECT_OK(follower->TryCatchUp());
    return GetOr(follower, "~mark") == mark;
  }));
}

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
  const std::unique_ptr<Iterator> all(follower_->NewIterator(ReadOptions()));
  all->SeekToFirst();
  ASSERT_TRUE(all->Valid());
  EXPECT_EQ(all->key().ToString(), "b");
}

// Eight keys all over the key range, of which each batch makes one number; and what lies between
// them is overwritten at random, so that flushes and merges have something to do.
class Batches {
 public:
  static constexpr int kKeys = 8;

  static std::string Key(int i) { return std::string(1, static_cast<char>(i * 32)) + "key"; }

  Status Write(DB* db) {
    WriteBatch batch;
    ++number_;
    for (int i = 0; i < kKeys; ++i) batch.Put(Key(i), std::to_string(number_));
    for (int i = 0; i < 4; ++i) {
      const std::string key = Key(static_cast<int>(random_.Uniform(kKeys))) + "filler" +
                              std::to_string(random_.Uniform(200));
      batch.Put(key, std::to_string(number_) + std::string(300, 'f'));
    }
    return db->Write(WriteOptions(), &batch);
  }
  int number() const { return number_; }

 private:
  int number_ = 0;
  Random random_{301};
};

// What all of the keys say, checked to be one number: by MultiGet, or by an iterator that has been
// made before. -1: nothing has been written.
int NumberOf(DB* db) {
  std::vector<std::string> names;
  std::vector<Slice> keys;
  for (int i = 0; i < Batches::kKeys; ++i) names.push_back(Batches::Key(i));
  keys.assign(names.begin(), names.end());
  std::vector<std::string> values;
  const std::vector<Status> statuses = db->MultiGet(ReadOptions(), keys, &values);
  for (int i = 1; i < Batches::kKeys; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], values[0]) << i;
    EXPECT_EQ(statuses[static_cast<size_t>(i)].ToString(), statuses[0].ToString()) << i;
  }
  if (statuses[0].IsNotFound()) return -1;
  EXPECT_OK(statuses[0]);
  return std::atoi(values[0].c_str());
}

int NumberOf(Iterator* iterator) {
  int number = -1;
  int found = 0;
  int largest_filler = -1;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const int value = std::atoi(iterator->value().ToString().c_str());
    if (iterator->key().size() > 4) {
      largest_filler = std::max(largest_filler, value);
      continue;
    }
    if (found++ == 0) number = value;
    EXPECT_EQ(value, number) << iterator->key().ToString();
  }
  EXPECT_OK(iterator->status());
  EXPECT_TRUE(found == 0 || found == Batches::kKeys) << found;
  EXPECT_LE(largest_filler, number);
  return number;
}

void UseShards(Options* options, int shards) {
  options->shards = shards;
  for (int i = 1; i < shards; ++i) {
    options->shard_boundaries.emplace_back(1, static_cast<char>(i * 256 / shards));
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

// Tables of both shards are on three memory nodes. Fails if one of these does not keep what an old
// publication names, or if a follower does not find its way to a table.
TEST(FollowerOfSeveralNodesTest, OldReadsStayExact) {
  for (const char* fabric : {"shm", "tcp"}) {
    SCOPED_TRACE(fabric);
    TestNodes nodes(3, fabric);
    Options options = nodes.With(OwnerOptions());
    options.placement = TablePlacement::kRoundRobin;
    options.scatter_width = 2;
    UseShards(&options, 2);
    auto owner = OpenOrDie(options, "spread");
    auto follower = FollowOrDie(nodes.With(FollowerOptions()), "spread");
    const auto value_of = [](uint64_t key, int round) {
      return std::to_string(key) + "-" + std::to_string(round) + std::string(300, 'v');
    };
    const auto fill = [&](int round) {
      for (uint64_t key = 0; key < 2000; ++key) {
        ASSERT_OK(owner->Put(WriteOptions(), NumberedKey(key), value_of(key, round)));
      }
      owner->CompactRange(nullptr, nullptr);
      CatchUpWith(owner.get(), follower.get());
      ASSERT_OK(owner->WaitForBackgroundWork());  // Gives back at once what is not needed.
    };
    fill(0);
    const Snapshot* const snapshot = follower->GetSnapshot();
    for (int round = 1; round <= 6; ++round) fill(round);
    ReadOptions as_before;
    as_before.snapshot = snapshot;
    for (uint64_t key = 0; key < 2000; ++key) {
      ASSERT_EQ(GetOr(follower.get(), NumberedKey(key), as_before), value_of(key, 0));
      ASSERT_EQ(GetOr(follower.get(), NumberedKey(key)), value_of(key, 6));
    }
    follower->ReleaseSnapshot(snapshot);
    ASSERT_OK(follower->Close());
    CloseAndDestroy(&owner, options, "spread");
    for (size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].used_bytes(), 0u) << i;
  }
}

// Holds up the first merge that has put the manifest, and has not given back its inputs yet.
class HeldMerge {
 public:
  HeldMerge() {
    held = released = false;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::string_view(place) != "merge: stored" || held.exchange(true)) return;
      while (!released) std::this_thread::sleep_for(milliseconds(1));
    };
  }
  ~HeldMerge() {
    released = true;
    port::SyncPointHookOfProcess() = nullptr;
  }
  static bool IsThere() { return held; }

 private:
  static inline std::atomic<bool> held{false};
  static inline std::atomic<bool> released{false};
};

// What a former owner's lists name beyond its manifest, for it came no further, its heir gives back
// while it opens, before it knows which publications are its own. Fails if an heir that gets no
// further either has memory freed that followers read.
TEST(FollowerOfSeveralNodesTest, AnHeirThatFailsFreesNothingThatIsRead) {
  constexpr uint64_t kKeys = 2000;
  TestNodes nodes(3, "tcp");
  Options options = nodes.With(OwnerOptions());
  options.placement = TablePlacement::kRoundRobin;
  options.compaction_style = CompactionStyle::kLeveled;
  options.num_levels = 2;  // So one merge takes in all tables that there are.
  const std::string value(300, 'v');
  const auto fill = [&](DB* db, uint64_t every, const std::string& what) {
    for (uint64_t key = 0; key < kKeys; key += every) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(key), what + value));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
  };
  // At the memory nodes that are not the home.
  const auto table_bytes = [](DB* db) {
    std::string text;
    EXPECT_TRUE(db->GetProperty("dlsm.placement", &text));
    std::istringstream lines(text);
    std::string line;
    uint64_t sum = 0;
    for (int i = 0; std::getline(lines, line) && i < 4; ++i) {
      unsigned long bytes = 0;
      if (i > 1 && std::sscanf(line.c_str(), "%*u %*u %lu", &bytes) == 1) sum += bytes;
    }
    return sum;
  };
  const auto used_bytes = [&] { return nodes[1].used_bytes() + nodes[2].used_bytes(); };
  auto former = OpenOrDie(options, "spread");
  fill(former.get(), 1, "old");
  former->CompactRange(nullptr, nullptr);
  ASSERT_OK(former->WaitForBackgroundWork());
  ASSERT_OK(former->Close());
  options.publish_interval_ms = 3600 * 1000;  // Once, at the start.
  former = OpenOrDie(options, "spread");
  ASSERT_TRUE(
      Eventually([&] { return FieldOfProperty(former.get(), "dlsm.publications", "number") > 0; }));
  const uint64_t published_bytes = table_bytes(former.get());
  ASSERT_GT(published_bytes, 64u << 10);
  auto follower = FollowOrDie(nodes.With(FollowerOptions()), "spread");
  std::unique_ptr<Iterator> iterator(follower->NewIterator(ReadOptions()));
  const auto expect_exact = [&] {
    uint64_t key = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++key) {
      ASSERT_EQ(iterator->value().ToString(), "old" + value);
    }
    ASSERT_OK(iterator->status());
    ASSERT_EQ(key, kKeys);
  };
  auto held = std::make_unique<HeldMerge>();
  fill(former.get(), 100, "new");
  std::thread merging([&] { former->CompactRange(nullptr, nullptr); });
  EXPECT_TRUE(Eventually([] { return HeldMerge::IsThere(); }));

  Options failing = options;
  failing.take_over = true;
  failing.fault_injector = std::make_shared<FaultInjector>();
  failing.fault_injector->OnlyPurpose(Purpose::kPublication);
  failing.fault_injector->SetProbability(FaultKind::kFail, 1);
  std::unique_ptr<DB> heir;
  const Status failed = DB::Open(failing, "spread", &heir);
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(failed.ToString(), HasSubstr("injected fault"));
  // What the former owner held besides is free after a moment.
  uint64_t least = UINT64_MAX;
  for (int look = 0; look < 20; ++look) {
    least = std::min(least, used_bytes());
    expect_exact();
    std::this_thread::sleep_for(milliseconds(50));
  }
  held.reset();
  merging.join();
  EXPECT_FALSE(former->Close().ok());
  former.reset();
  heir = OpenOrDie(options, "spread");
  EXPECT_GE(least, published_bytes + table_bytes(heir.get()));
  expect_exact();
  iterator.reset();
  ASSERT_OK(follower->Close());
  CloseAndDestroy(&heir, options, "spread");
  for (size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].used_bytes(), 0u) << i;
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
    owner_->CompactRange(nullptr, nullptr);
    CatchUp();
    ASSERT_EQ(NumberOf(iterator.get()), number);
    ReadOptions as_before;
    as_before.snapshot = snapshot;
    ASSERT_EQ(GetOr(follower_.get(), Batches::Key(5), as_before), std::to_string(number));
    ASSERT_EQ(NumberOf(follower_.get()), batches.number());
  }
  follower_->ReleaseSnapshot(snapshot);
}

// Fails if a follower does not know LevelDB's names of properties, or gives more than a number
// where that is one.
TEST_P(FollowerTest, AnswersToLevelDbNames) {
  OpenBoth();
  CatchUp();
  std::string text;
  EXPECT_TRUE(follower_->GetProperty("leveldb.stats", &text));
  ASSERT_TRUE(follower_->GetProperty("leveldb.approximate-memory-usage", &text));
  EXPECT_EQ(text, std::to_string(NumberProperty(follower_.get(), "dlsm.metadata-bytes")));
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
  // Until the last publication has been seen, merges included.
  ASSERT_OK(owner_->WaitForBackgroundWork());
  std::this_thread::sleep_for(milliseconds(100));
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
  ASSERT_OK(owner_->WaitForBackgroundWork());
  std::this_thread::sleep_for(milliseconds(50));
  const uint64_t number = FieldOfProperty(owner_.get(), "dlsm.publications", "number");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(FieldOfProperty(owner_.get(), "dlsm.publications", "number"), number);
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
        follower_->SetOptions({{"merge_scheduler", "fair"}})}) {
    EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
    EXPECT_THAT(refused.ToString(), HasSubstr("owner"));
  }
  follower_->CompactRange(nullptr, nullptr);
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
    owner_->CompactRange(nullptr, nullptr);
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
  owner_->CompactRange(nullptr, nullptr);
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
    owner_->CompactRange(nullptr, nullptr);
    CatchUp();
    ASSERT_EQ(NumberOf(follower_.get()), batches.number());
  }
  EXPECT_GE(faults.CountFaults(), 15u) << "transfers of one publication";
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FollowerTest, testing::Values("", "shm", "tcp"),
                         [](const auto& param) {
                           return param.param.empty() ? "embedded" : param.param;
                         });

// -------- Leases

constexpr milliseconds kLease{800};

// A memory node with short leases, an owner, and a follower whose heartbeats can be lost.
class FollowerLeaseTest : public testing::TestWithParam<std::string> {
 protected:
  static TestNode::Config NodeConfig(uint64_t bytes) {
    TestNode::Config config;
    config.bytes = bytes;
    config.lease = kLease;
    return config;
  }
  void Start(uint64_t bytes, TableFormat format = TableFormat::kByteAddressable) {
    node_ = std::make_unique<TestNode>(NodeConfig(bytes));
    owner_options_ = node_->With(OwnerOptions(), GetParam());
    owner_options_.table_format = format;
    follower_options_ = node_->With(FollowerOptions(), GetParam());
    follower_options_.fault_injector = faults_;
    faults_->OnlyPurpose(Purpose::kRpc);
    owner_ = OpenOrDie(owner_options_, "followed");
    follower_ = FollowOrDie(follower_options_, "followed");
  }
  void TearDown() override {
    if (follower_ != nullptr) {
      EXPECT_OK(follower_->Close());
    }
    CloseAndDestroy(&owner_, owner_options_, "followed");
  }
  void LoseHeartbeats() { faults_->SetProbability(FaultKind::kFail, 1); }
  // Once the lease has ended, not even what no transfer is needed for.
  void ExpectNothingIsTold() {
    const std::vector<std::string> keys = {Batches::Key(1), "absent", std::string(100, 'x')};
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = follower_->MultiGet(ReadOptions(), slices, &values);
    const auto pipeline = follower_->NewGetPipeline(ReadOptions(), 2);
    for (size_t i = 0; i < keys.size(); ++i) {
      std::string value;
      const Status status = follower_->Get(ReadOptions(), keys[i], &value);
      EXPECT_TRUE(status.IsTimedOut()) << keys[i] << ": " << status.ToString();
      EXPECT_TRUE(statuses[i].IsTimedOut()) << keys[i] << ": " << statuses[i].ToString();
      EXPECT_EQ(values[i], "");
      ASSERT_OK(pipeline->Submit(keys[i], i));
      GetPipeline::Answer answer;
      ASSERT_TRUE(pipeline->Next(&answer));
      EXPECT_TRUE(answer.status.IsTimedOut()) << keys[i] << ": " << answer.status.ToString();
      EXPECT_EQ(answer.value, "");
    }
    const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().IsTimedOut()) << iterator->status().ToString();
  }
  void OverwriteAll() {
    for (int i = 0; i < 400; ++i) ASSERT_OK(batches_.Write(owner_.get()));
    owner_->CompactRange(nullptr, nullptr);
    ASSERT_OK(owner_->WaitForBackgroundWork());
  }
  uint64_t OwnerNumber() { return FieldOfProperty(owner_.get(), "dlsm.publications", "number"); }

  const std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  Options owner_options_;
  Options follower_options_;
  Batches batches_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> owner_;
  std::unique_ptr<DB> follower_;
};

// Fails if bytes are handed out after the lease, if memory is reused before its end or not after
// it, or if the follower does not come back.
TEST_P(FollowerLeaseTest, AnEndedLeaseGivesErrorsNotBytes) {
  Start(uint64_t{256} << 20);
  OverwriteAll();
  CatchUpWith(owner_.get(), follower_.get());
  const int number = batches_.number();
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  const Snapshot* const snapshot = follower_->GetSnapshot();
  // For several leases, the follower's heartbeats keep what it reads.
  uint64_t kept = 0;
  for (int round = 0; round < 6; ++round) {
    OverwriteAll();
    std::this_thread::sleep_for(kLease / 2);
    ASSERT_EQ(NumberOf(iterator.get()), number);
    ASSERT_GE(node_->used_bytes(), kept);
    kept = node_->used_bytes();
  }
  LoseHeartbeats();
  Status ended;
  int before = 0;
  // Whatever is returned is right, until an error is.
  EXPECT_TRUE(Eventually([&] {
    OverwriteAll();
    iterator->SeekToFirst();
    for (; iterator->Valid(); iterator->Next()) {
      if (iterator->key().size() == 4) {
        EXPECT_EQ(iterator->value().ToString(), std::to_string(number));
      }
    }
    ended = iterator->status();
    before += ended.ok() ? 1 : 0;
    return !ended.ok();
  }));
  EXPECT_GT(before, 0);
  EXPECT_TRUE(ended.IsTimedOut()) << ended.ToString();
  EXPECT_THAT(ended.ToString(), HasSubstr("lease"));
  EXPECT_THAT(ended.ToString(), HasSubstr("injected fault"));
  ReadOptions as_before;
  as_before.snapshot = snapshot;
  std::string value;
  EXPECT_TRUE(follower_->Get(as_before, Batches::Key(1), &value).IsTimedOut());
  EXPECT_TRUE(follower_->Get(ReadOptions(), Batches::Key(1), &value).IsTimedOut());
  ExpectNothingIsTold();
  EXPECT_TRUE(Eventually([&] { return node_->used_bytes() < kept; })) << "what it kept is free";
  faults_->Clear();
  CatchUpWith(owner_.get(), follower_.get());
  EXPECT_EQ(NumberOf(follower_.get()), batches_.number());
  EXPECT_EQ(FieldOfProperty(follower_.get(), "dlsm.follower", "reopened"), 1u);
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE(iterator->status().IsTimedOut()) << "it is of the lease that has ended";
  EXPECT_TRUE(follower_->Get(as_before, Batches::Key(1), &value).IsTimedOut());
  follower_->ReleaseSnapshot(snapshot);
}

// Fails if blocks that are in the cache are told for ever.
TEST_P(FollowerLeaseTest, AnEndedLeaseEndsWhatIsCached) {
  Start(uint64_t{256} << 20, TableFormat::kBlockBased);
  OverwriteAll();
  CatchUpWith(owner_.get(), follower_.get());
  ASSERT_EQ(GetOr(follower_.get(), Batches::Key(1)), std::to_string(batches_.number()));
  LoseHeartbeats();
  EXPECT_TRUE(Eventually([&] {
    std::string value;
    return follower_->Get(ReadOptions(), Batches::Key(1), &value).IsTimedOut();
  }));
  ExpectNothingIsTold();
  faults_->Clear();
}

// The memory node takes a lease for ended that the follower takes for good: their clocks differ.
// Fails if the follower goes on reading once it has been told.
TEST_P(FollowerLeaseTest, ALeaseThatHasEndedThereHasEnded) {
  const auto ahead = std::make_shared<std::atomic<int64_t>>(0);  // Seconds.
  TestNode::Config config;
  config.clock = [ahead] {
    return DatabaseTableOptions::Clock::now() + std::chrono::seconds(ahead->load());
  };
  node_ = std::make_unique<TestNode>(config);
  owner_options_ = node_->With(OwnerOptions(), GetParam());
  follower_options_ = node_->With(FollowerOptions(), GetParam());
  owner_ = OpenOrDie(owner_options_, "followed");
  ASSERT_OK(owner_->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(owner_->Close());
  owner_.reset();
  follower_ = FollowOrDie(follower_options_, "followed");
  ASSERT_EQ(GetOr(follower_.get(), "key"), "value");
  ahead->store(100);
  const auto start = std::chrono::steady_clock::now();
  std::string value;
  Status ended;
  EXPECT_TRUE(Eventually([&] {
    ended = follower_->Get(ReadOptions(), "key", &value);
    return !ended.ok();
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, config.lease / 2) << "heartbeats are sent";
  EXPECT_TRUE(ended.IsTimedOut()) << ended.ToString();
  EXPECT_THAT(ended.ToString(), HasSubstr("this reader's lease has ended"));
  ASSERT_OK(follower_->TryCatchUp());
  EXPECT_EQ(GetOr(follower_.get(), "key"), "value");
}

// Fails if a follower that reads something old for ever can stop the owner of a full memory node,
// or gets wrong bytes when it no longer can.
TEST_P(FollowerLeaseTest, AFullNodeGetsItsMemoryBack) {
  Start(uint64_t{24} << 20);
  follower_.reset();
  follower_options_.follow_interval_ms = 10;
  follower_ = FollowOrDie(follower_options_, "followed");
  OverwriteAll();
  CatchUpWith(owner_.get(), follower_.get());
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  const int number = NumberOf(iterator.get());
  Status ended;
  EXPECT_TRUE(Eventually([&] {
    OverwriteAll();
    if (HasFatalFailure()) return true;
    iterator->SeekToFirst();
    for (; iterator->Valid(); iterator->Next()) {
      if (iterator->key().size() == 4) {
        EXPECT_EQ(iterator->value().ToString(), std::to_string(number));
      }
    }
    ended = iterator->status();
    return !ended.ok();
  }));
  EXPECT_TRUE(ended.IsTimedOut()) << ended.ToString();
  EXPECT_THAT(ended.ToString(), HasSubstr("the memory node is full"));
  // It follows again by itself.
  OverwriteAll();
  EXPECT_TRUE(Eventually([&] {
    std::string value;
    return follower_->Get(ReadOptions(), Batches::Key(1), &value).ok() &&
           value == std::to_string(batches_.number());
  }));
}

// Fails if a follower hangs, or gets wrong bytes, when the memory node has gone.
TEST_P(FollowerLeaseTest, OutlivesItsMemoryNode) {
  Start(uint64_t{256} << 20);
  follower_options_.operation_timeout_ms = 1000;
  follower_options_.follow_interval_ms = 10;
  auto follower = FollowOrDie(follower_options_, "followed");
  OverwriteAll();
  CatchUpWith(owner_.get(), follower.get());
  node_->Kill();
  EXPECT_TRUE(Eventually([&] {
    std::string value;
    const Status status = follower->Get(ReadOptions(), Batches::Key(1), &value);
    if (status.ok()) {
      EXPECT_EQ(value, std::to_string(batches_.number()));
    }
    return !status.ok();
  }));
  EXPECT_FALSE(follower->TryCatchUp().ok());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_OK(follower->Close());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  follower_.reset();
  owner_.reset();
}

// What another process could write into the header. Fails if any of it is believed, or stops the
// follower from reading what it has.
TEST_P(FollowerLeaseTest, NonsenseInTheHeaderIsNotBelieved) {
  Start(uint64_t{256} << 20);
  OverwriteAll();
  ASSERT_OK(owner_->Close());  // It would notice.
  ASSERT_OK(follower_->TryCatchUp());
  ASSERT_EQ(NumberOf(follower_.get()), batches_.number());
  std::unique_ptr<NodeConnection> connection;
  NodeConnectionOptions connect;
  connect.fabric.kind = FabricKind::kTcp;
  const Deadline deadline = Deadline::In(std::chrono::seconds(30));
  ASSERT_OK(ConnectNode({"127.0.0.1", node_->server().port()}, connect, deadline, &connection));
  OpenReaderRequest request;
  request.databases = {"followed"};
  OpenReaderReply reader;
  std::string reply;
  ASSERT_OK(connection->rpc().Call(Method::kOpenReader, request.Encode(), &reply, deadline));
  ASSERT_OK(reader.Decode(reply));
  std::unique_ptr<QueuePair> queue_pair;
  ASSERT_OK(connection->fabric().NewQueuePair(deadline, &queue_pair));
  PublicationBoard board(queue_pair.get(), reader.header, deadline);
  uint64_t number = 0;
  ASSERT_OK(board.ReadNumber(&number));
  PublicationSlot good;
  ASSERT_OK(board.ReadSlot(number, &good));
  const auto publish = [&](PublicationSlot slot) {
    slot.number = number + 1;
    ASSERT_OK(board.Write(slot, number));
    ++number;
    EXPECT_FALSE(follower_->TryCatchUp().ok());
    EXPECT_EQ(NumberOf(follower_.get()), batches_.number());
  };
  PublicationSlot bad = good;
  bad.image.offset = UINT64_MAX - bad.image.bytes;  // Outside of the region.
  publish(bad);
  bad = good;
  bad.image.node = NodeId{77};
  publish(bad);
  bad = good;
  bad.image.offset += 64;  // Something else.
  publish(bad);
  bad.image_checksum = 0;
  publish(bad);
  publish(good);  // An image of another number.
  // Words that are no slot at all.
  uint64_t prior;
  Ticket ticket;
  const RemoteSpan words = PublicationsIn(reader.header);
  ASSERT_OK(queue_pair->PostFetchAdd(words.Sub(64 + number % 2 * 64, 8), 12345, &prior,
                                     Purpose::kPublication, &ticket));
  ASSERT_OK(queue_pair->PostFetchAdd(words.Sub(64 + (number + 1) % 2 * 64, 8), 12345, &prior,
                                     Purpose::kPublication, &ticket));
  ASSERT_OK(queue_pair->PostFetchAdd(words.Sub(0, 8), 1, &prior, Purpose::kPublication, &ticket));
  ASSERT_OK(queue_pair->Wait(ticket, deadline));
  EXPECT_FALSE(follower_->TryCatchUp().ok());
  EXPECT_EQ(NumberOf(follower_.get()), batches_.number());
  owner_.reset();
}

// -------- Another process

constexpr char kNodeVariable[] = "DLSM_FOLLOWER_TEST_NODE";

// Not a test: the owner that is killed.
TEST(FollowerOwnerProcess, DISABLED_WritesUntilItIsKilled) {
  const char* const node = std::getenv(kNodeVariable);
  if (node == nullptr) GTEST_SKIP() << "only for the test below";
  Options options = OwnerOptions();
  options.memory_nodes = node;
  const auto owner = OpenOrDie(options, "followed");
  Batches batches;
  for (int i = 0; i < 300; ++i) ASSERT_OK(batches.Write(owner.get()));
  std::this_thread::sleep_for(std::chrono::minutes(2));
}

// Fails if followers do not survive an owner that is killed, go back, or do not follow the next.
TEST_P(FollowerLeaseTest, OutlivesAnOwnerThatIsKilled) {
  TestNode::Config config = NodeConfig(uint64_t{256} << 20);
  config.grace = milliseconds(200);
  node_ = std::make_unique<TestNode>(config);
  owner_options_ = node_->With(OwnerOptions(), GetParam());
  follower_options_ = node_->With(FollowerOptions(), GetParam());
  setenv(kNodeVariable, node_->address().c_str(), /*overwrite=*/1);
  char program[] = "/proc/self/exe";
  char filter[] = "--gtest_filter=FollowerOwnerProcess.DISABLED_*";
  char disabled[] = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program, filter, disabled, nullptr};
  pid_t owner = 0;
  ASSERT_EQ(posix_spawn(&owner, program, nullptr, nullptr, arguments, environ), 0);
  ASSERT_TRUE(
      Eventually([&] { return DB::OpenFollower(follower_options_, "followed", &follower_).ok(); }));
  EXPECT_TRUE(Eventually([&] {
    EXPECT_OK(follower_->TryCatchUp());
    return NumberOf(follower_.get()) == 300;
  }));
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  ASSERT_EQ(kill(owner, SIGKILL), 0);
  ASSERT_EQ(waitpid(owner, nullptr, 0), owner);
  // What the killed owner held beyond its manifest is given back when its session has ended.
  std::this_thread::sleep_for(config.grace + kLease);
  EXPECT_EQ(NumberOf(follower_.get()), 300);
  owner_ = OpenOrDie(owner_options_, "followed");
  for (int i = 0; i < 400; ++i) ASSERT_OK(batches_.Write(owner_.get()));
  owner_->CompactRange(nullptr, nullptr);
  EXPECT_EQ(NumberOf(iterator.get()), 300);
  CatchUpWith(owner_.get(), follower_.get());
  EXPECT_EQ(NumberOf(follower_.get()), 400);
  EXPECT_EQ(NumberOf(iterator.get()), 300);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FollowerLeaseTest, testing::Values("shm", "tcp"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace dlsm
