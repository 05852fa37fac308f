// One database, several processes that want to write it: whole handles over each fabric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "db/nodes/shard_map.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "port/mutex.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Threads that write a handle's keys over and over, whatever comes of it.
class Writers {
 public:
  Writers(DB* db, int threads) : db_(db) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] { Run(static_cast<uint64_t>(i) + 1); });
    }
  }
  ~Writers() { Stop(); }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  uint64_t written() const { return written_; }
  uint64_t refused() const { return refused_; }
  Status last_refusal() {
    const port::MutexLock lock(mutex_);
    return last_refusal_;
  }

 private:
  void Run(uint64_t seed) {
    Random random(seed);
    while (!stop_) {
      const std::string value = "old " + std::string(200, static_cast<char>('a' + seed));
      const Status status = db_->Put(WriteOptions(), NumberedKey(random.Uniform(2000)), value);
      if (status.ok()) {
        ++written_;
        continue;
      }
      ++refused_;
      {
        const port::MutexLock lock(mutex_);
        last_refusal_ = status;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  DB* const db_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> refused_{0};
  port::Mutex mutex_;
  Status last_refusal_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

struct TakeOverShape {
  const char* fabric;
  int shards;
};

std::string TakeOverShapeName(const TakeOverShape& shape) {
  return shape.fabric + std::to_string(shape.shards);
}
void PrintTo(const TakeOverShape& shape, std::ostream* out) { *out << TakeOverShapeName(shape); }

class TakeOverTest : public testing::TestWithParam<TakeOverShape> {
 protected:
  TakeOverTest() : node_(GetParam().fabric) {}

  Options HandleOptions(bool take_over) {
    Options options = node_.With(TinyOptions(), GetParam().fabric);
    options.shards = GetParam().shards;
    if (options.shards == 3) options.shard_boundaries = {NumberedKey(700), NumberedKey(1400)};
    options.take_over = take_over;
    return options;
  }

  TestNode node_;
};

// Fails if a second writer gets in without being asked to take over, or is not told who is there.
TEST_P(TakeOverTest, WhoDoesNotTakeOverIsRefused) {
  const auto first = OpenOrDie(HandleOptions(false), "db");
  std::unique_ptr<DB> second;
  const Status refused = DB::Open(HandleOptions(false), "db", &second);
  EXPECT_TRUE(refused.IsBusy());
  EXPECT_THAT(refused.ToString(), HasSubstr("is open by process " + std::to_string(getpid())));
  EXPECT_THAT(refused.ToString(), HasSubstr("take_over"));
}

// Fails if what the old owner had flushed is lost, if what it still tries changes anything that the
// new one has written, or if it hangs, or does not say who took over.
TEST_P(TakeOverTest, FromALiveWriter) {
  auto old = OpenOrDie(HandleOptions(false), "db");
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_OK(old->Put(WriteOptions(), NumberedKey(i), "old first"));
  }
  ASSERT_OK(old->Put(WriteOptions(), "flushed", "kept"));
  ASSERT_OK(old->Flush(FlushOptions()));
  Writers writers(old.get(), 3);
  ASSERT_TRUE(Eventually([&] { return writers.written() > 5000; }));

  auto heir = OpenOrDie(HandleOptions(true), "db");
  std::string value;
  ASSERT_OK(heir->Get(ReadOptions(), "flushed", &value));
  EXPECT_EQ(value, "kept");
  std::map<std::string, std::string> model;
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_OK(heir->Get(ReadOptions(), NumberedKey(i), &value)) << i;
    ASSERT_EQ(value.substr(0, 4), "old ");
    model[NumberedKey(i)] = value;
  }
  Random random(17);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 1000; ++i) {
      const std::string key = NumberedKey(random.Uniform(2000));
      model[key] = "new " + std::to_string(random.Next()) + std::string(150, 'n');
      ASSERT_OK(heir->Put(WriteOptions(), key, model[key]));
    }
    ReadOptions verify;
    verify.verify_checksums = true;
    for (int i = 0; i < 200; ++i) {
      const std::string key = NumberedKey(random.Uniform(2000));
      ASSERT_OK(heir->Get(verify, key, &value));
      ASSERT_EQ(value, model[key]) << key;
    }
  }
  ASSERT_TRUE(Eventually([&] { return writers.refused() > 3; }));
  const Status refusal = writers.last_refusal();
  // The handle knows that it is refused for good: else its writers would wait for room, in vain.
  EXPECT_TRUE(refusal.IsIOFenced()) << refusal.ToString();
  EXPECT_THAT(refusal.ToString(), HasSubstr("was taken by process " + std::to_string(getpid())));
  const uint64_t written = writers.written();
  EXPECT_TRUE(old->Flush(FlushOptions()).IsIOError());
  EXPECT_TRUE(old->WaitForBackgroundWork().IsIOError());
  EXPECT_EQ(writers.written(), written) << "refused once, refused for good";
  writers.Stop();
  const Status closed = old->Close();
  EXPECT_TRUE(closed.IsIOError()) << closed.ToString();
  old.reset();

  ASSERT_OK(heir->CompactRange(nullptr, nullptr));
  ASSERT_OK(heir->Close());
  heir = OpenOrDie(HandleOptions(false), "db");
  for (const auto& [key, expected] : model) {
    ASSERT_OK(heir->Get(ReadOptions(), key, &value)) << key;
    ASSERT_EQ(value, expected) << key;
  }
  ASSERT_OK(heir->Close());
  heir.reset();
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
  EXPECT_EQ(node_.server().node().take_overs(), static_cast<uint64_t>(GetParam().shards));
  EXPECT_OK(DestroyDB("db", HandleOptions(false)));
  EXPECT_EQ(node_.used_bytes(), 0u) << "nothing stays fenced";
}

// Fails if writes that the old owner's fabric holds up land in what the new one has.
TEST_P(TakeOverTest, LateWritesHurtNobody) {
  Options slow = HandleOptions(false);
  slow.fault_injector = std::make_shared<FaultInjector>();
  slow.fault_injector->OnlyPurpose(Purpose::kFlush);
  slow.fault_injector->SetDelay(milliseconds(20));
  slow.fault_injector->SetProbability(FaultKind::kDelay, 0.5);
  auto old = OpenOrDie(slow, "db");
  Writers writers(old.get(), 2);
  ASSERT_TRUE(Eventually([&] { return writers.written() > 2000; }));
  auto heir = OpenOrDie(HandleOptions(true), "db");
  std::map<std::string, std::string> model;
  Random random(3);
  for (int i = 0; i < 10000; ++i) {
    const std::string key = NumberedKey(random.Uniform(2000));
    model[key] = std::to_string(i) + std::string(200, 'n');
    ASSERT_OK(heir->Put(WriteOptions(), key, model[key]));
  }
  ASSERT_OK(heir->Flush(FlushOptions()));
  ASSERT_OK(heir->WaitForBackgroundWork());
  ReadOptions verify;
  verify.verify_checksums = true;
  std::string value;
  for (const auto& [key, expected] : model) {
    ASSERT_OK(heir->Get(verify, key, &value)) << key;
    ASSERT_EQ(value, expected) << key;
  }
  writers.Stop();
  EXPECT_TRUE(old->Close().IsIOError());
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
}

// Fails if the epoch is not larger with each owner, or the database is lost between them.
TEST_P(TakeOverTest, TimeAndAgain) {
  std::vector<std::unique_ptr<DB>> handles;
  std::string epoch;
  uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    handles.push_back(OpenOrDie(HandleOptions(i > 0), "db"));
    DB& db = *handles.back();
    ASSERT_TRUE(db.GetProperty("dlsm.ownership-epoch", &epoch));
    EXPECT_GT(std::stoull(epoch), last);
    last = std::stoull(epoch);
    std::string count;
    if (i > 0) {
      ASSERT_OK(db.Get(ReadOptions(), "count", &count));
      EXPECT_EQ(count, std::to_string(i - 1));
    }
    ASSERT_OK(db.Put(WriteOptions(), "count", std::to_string(i)));
    ASSERT_OK(db.Flush(FlushOptions()));
  }
  for (size_t i = 0; i + 1 < handles.size(); ++i) EXPECT_TRUE(handles[i]->Close().IsIOError());
  EXPECT_OK(handles.back()->Close());
}

// Fails if two that take over at once both go on, or neither does.
TEST_P(TakeOverTest, OneOfTwoThatRaceWins) {
  auto owner = OpenOrDie(HandleOptions(false), "db");
  ASSERT_OK(owner->Put(WriteOptions(), "k", "v"));
  ASSERT_OK(owner->Flush(FlushOptions()));
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<DB> raced[2];
    Status outcome[2];
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { outcome[i] = DB::Open(HandleOptions(true), "db", &raced[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    int winners = 0;
    for (int i = 0; i < 2; ++i) {
      if (!outcome[i].ok()) {
        EXPECT_TRUE(outcome[i].IsBusy() || outcome[i].IsIOError()) << outcome[i].ToString();
        continue;
      }
      if (!raced[i]->Put(WriteOptions(), "k", "v").ok()) continue;
      if (raced[i]->Flush(FlushOptions()).ok()) ++winners;
    }
    EXPECT_EQ(winners, 1) << "whoever has taken the first shard last";
    owner = OpenOrDie(HandleOptions(true), "db");
    std::string value;
    ASSERT_OK(owner->Get(ReadOptions(), "k", &value));
  }
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
}

// The usual order, which keeps those that ask for it waiting while it is held.
class HeldOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    while (held_) {
      somebody_waits_ = true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return a.compare(b);
  }
  const char* Name() const override { return "test.HeldOrder"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

  void Hold(bool held) { held_ = held; }
  bool somebody_waits() const { return somebody_waits_; }

 private:
  std::atomic<bool> held_{false};
  mutable std::atomic<bool> somebody_waits_{false};
};

// A handle is taken over while it is being opened and looks at its tables, and goes on afterwards:
// over shm it reaches the header still. Fails if it takes the number of the next publication then,
// for its successor would take that for somebody else's, and publish nothing any more.
TEST(TakeOverOfAnOpenTest, TheSuccessorGoesOnPublishing) {
  HeldOrder order;
  HeldOrder slow_order;
  TestNode node("shm");
  Options options = node.With(TinyOptions(), "shm");
  options.comparator = &order;
  {
    const auto first = OpenOrDie(options, "db");
    ASSERT_OK(first->Put(WriteOptions(), NumberedKey(1), "v"));
    ASSERT_OK(first->Put(WriteOptions(), NumberedKey(2), "v"));
    ASSERT_OK(first->Close());
  }
  Options slow_options = options;
  slow_options.comparator = &slow_order;
  slow_order.Hold(true);
  std::unique_ptr<DB> slow;
  Status opened;
  std::thread opener([&] { opened = DB::Open(slow_options, "db", &slow); });
  EXPECT_TRUE(Eventually([&] { return slow_order.somebody_waits(); }));
  options.take_over = true;
  options.publish_interval_ms = 10;
  const auto heir = OpenOrDie(options, "db");
  const auto number = [&heir] {
    return FieldOfProperty(heir.get(), "dlsm.publications", "number");
  };
  EXPECT_TRUE(Eventually([&] { return number() > 0; }));
  slow_order.Hold(false);
  opener.join();
  EXPECT_TRUE(opened.IsIOFenced()) << opened.ToString();
  const uint64_t before = number();
  ASSERT_OK(heir->Put(WriteOptions(), NumberedKey(3), "v"));
  EXPECT_TRUE(Eventually([&] { return number() > before; }));
  EXPECT_OK(heir->Close());
  EXPECT_EQ(node.server().node().take_overs(), 1u);
}

// A handle is held up while it is being opened, between the home and another memory node of its
// tables; meanwhile somebody takes the database over, writes tables there, and closes it. Fails if
// the first one, which has the manifest of before, takes these tables for nobody's and gives them
// back where it becomes the owner after all: the database could not be opened any more.
TEST(TakeOverOfAnOpenTest, WhatTheSuccessorHasElsewhereIsNotGivenBack) {
  constexpr uint64_t kKeys = 2000;
  TestNodes nodes(2, "shm");
  Options options = nodes.With(TinyOptions());
  options.placement = TablePlacement::kRoundRobin;
  options.level0_file_num_compaction_trigger = 1000;  // No merges: flushes go to both of them.
  options.level0_stop_writes_trigger = 2000;
  ASSERT_OK(OpenOrDie(options, "db")->Close());

  const std::string elsewhere = nodes[1].address();
  Options successors = options;
  successors.take_over = true;
  bool taken_over = false;
  const auto connector =
      std::make_shared<WatchedConnector>([&](uint16_t port, Method method, const Slice&) {
        const bool opens_elsewhere =
            method == Method::kOpenDatabase && elsewhere.ends_with(":" + std::to_string(port));
        if (!opens_elsewhere || taken_over) return Status::OK();
        taken_over = true;
        const auto successor = OpenOrDie(successors, "db");
        for (uint64_t i = 0; i < kKeys; ++i) {
          EXPECT_OK(successor->Put(WriteOptions(), NumberedKey(i), std::string(200, 'v')));
        }
        EXPECT_OK(successor->Close());
        EXPECT_GT(nodes[1].used_bytes(), uint64_t{64} << 10) << "it has tables there";
        return Status::OK();
      });
  connector->GoOver(FabricKind::kShm);
  Options slow = options;
  slow.node_connector = connector;
  std::unique_ptr<DB> db;
  const Status opened = DB::Open(slow, "db", &db);
  EXPECT_TRUE(opened.IsIOFenced()) << opened.ToString();
  ASSERT_TRUE(taken_over);

  ASSERT_OK(DB::Open(options, "db", &db));
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), std::string(200, 'v')) << i;
  }
  ASSERT_OK(db->Close());
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_OK(nodes[i].server().node().databases().CheckInvariants());
  }
}

// Who takes over fails between the shards: the former owner has lost the first one only. It renews
// no session any more, so that of the second one ends with its lease, and over shm nothing takes
// its memory away. Fails if the handle goes on reading there, whoever has that memory by then.
TEST(HalfATakeOverTest, NoShardIsReadAnyMore) {
  TestNode node("shm");
  Options options = node.With(TinyOptions(), "shm");
  options.shard_boundaries = {"m"};
  const auto former = OpenOrDie(options, "db");
  for (const char* const key : {"a", "z"}) ASSERT_OK(former->Put(WriteOptions(), key, "flushed"));
  ASSERT_OK(former->Flush(FlushOptions()));
  const auto connector =
      std::make_shared<WatchedConnector>([](uint16_t, Method method, const Slice& bytes) -> Status {
        if (method != Method::kOpenDatabase) return Status::OK();
        OpenDatabaseRequest request;
        DLSM_RETURN_IF_ERROR(request.Decode(bytes));
        const bool second = request.name == ShardName("db", 1);
        return second ? Status::IOError("the test has lost this call") : Status::OK();
      });
  connector->GoOver(FabricKind::kShm);
  options.node_connector = connector;
  options.take_over = true;
  std::unique_ptr<DB> heir;
  EXPECT_TRUE(DB::Open(options, "db", &heir).IsIOError());
  EXPECT_EQ(node.server().node().take_overs(), 1u);
  for (const char* const key : {"a", "z"}) {
    std::string value;
    EXPECT_TRUE(Eventually([&] { return former->Get(ReadOptions(), key, &value).IsIOFenced(); }))
        << key;
  }
  EXPECT_TRUE(former->Close().IsIOError());
}

INSTANTIATE_TEST_SUITE_P(EveryWay, TakeOverTest,
                         testing::Values(TakeOverShape{"tcp", 1}, TakeOverShape{"tcp", 3},
                                         TakeOverShape{"shm", 1}, TakeOverShape{"shm", 3}),
                         [](const auto& shape) { return TakeOverShapeName(shape.param); });

}  // namespace
}  // namespace dlsm
