// Followers of databases whose tables are on several memory nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "port/sync_point.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

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
      ASSERT_OK(owner->CompactRange(nullptr, nullptr));
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

// The owner's number among the compute nodes says on which memory node its database begins. Fails
// if a follower with another number, which looks on another memory node, is not told what to set.
TEST(FollowerOfSeveralNodesTest, SaysWhatToSetWhereItDoesNotFindTheDatabase) {
  TestNodes nodes(2, "tcp");
  Options options = nodes.With(OwnerOptions());
  options.compute_node_id = 1;
  auto owner = OpenOrDie(options, "elsewhere");
  Options following = nodes.With(FollowerOptions());
  std::unique_ptr<DB> follower;
  const Status missing = DB::OpenFollower(following, "elsewhere", &follower);
  EXPECT_TRUE(missing.IsNotFound()) << missing.ToString();
  EXPECT_THAT(missing.ToString(), HasSubstr("has no database 'elsewhere'"));
  EXPECT_THAT(missing.ToString(), HasSubstr("compute_node_id"));
  following.compute_node_id = 1;
  EXPECT_OK(FollowOrDie(following, "elsewhere")->Close());
  CloseAndDestroy(&owner, options, "elsewhere");
}

// A memory node comes back with other contents while the owner goes on publishing what it had
// there. Fails if a follower that begins then is not told that this is lost.
TEST(FollowerOfSeveralNodesTest, OtherContentsAreNotWhatWasPublished) {
  TestNodes nodes(2, "tcp");
  Options options = nodes.With(OwnerOptions());
  options.placement = TablePlacement::kRoundRobin;
  auto owner = OpenOrDie(options, "spread");
  ASSERT_OK(owner->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(owner->Flush(FlushOptions()));
  Options following = nodes.With(FollowerOptions());
  EXPECT_OK(FollowOrDie(following, "spread")->Close());
  nodes[1].Restart();
  following.open_timeout_ms = 1000;
  std::unique_ptr<DB> follower;
  const Status lost = DB::OpenFollower(following, "spread", &follower);
  EXPECT_TRUE(lost.IsIOError()) << lost.ToString();
  EXPECT_THAT(lost.ToString(), HasSubstr("has other contents than when"));
  owner->Close().PermitUncheckedError();
}

// One of the memory nodes has no room, so nothing of the database has ever been there. Fails if
// what is followed there goes with its owner all the same: nobody could follow the rest then.
TEST(FollowerOfSeveralNodesTest, FollowsWhatIsClosedAlsoWhereItHasNoTables) {
  std::vector<TestNode::Config> configs(2);
  // But for its header, which is the first that is asked for.
  configs[1].refuse_extent = [asked = std::make_shared<std::atomic<int>>(0)] {
    return asked->fetch_add(1) > 0;
  };
  TestNodes nodes(configs, "tcp");
  Options options = nodes.With(OwnerOptions());
  options.placement = TablePlacement::kRoundRobin;
  auto owner = OpenOrDie(options, "spread");
  ASSERT_OK(owner->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(owner->Close());
  owner.reset();
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(nodes.With(FollowerOptions()), "spread", &follower));
  EXPECT_EQ(GetOr(follower.get(), "key"), "value");
  ASSERT_OK(follower->Close());
  owner = OpenOrDie(options, "spread");
  EXPECT_EQ(GetOr(owner.get(), "key"), "value");
  CloseAndDestroy(&owner, options, "spread");
  for (size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].used_bytes(), 0u) << i;
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
// once the home has taken a manifest of its own. Fails if an heir that gets no further than to open
// it gives anything back, or has memory freed that followers read. Clients do not map the memory
// here: where they do, all that the former owner reached is kept until it has let go, whoever gives
// it back.
TEST(FollowerOfSeveralNodesTest, AnHeirThatFailsFreesNothingThatIsRead) {
  constexpr uint64_t kKeys = 2000;
  TestNode::Config unmapped;
  unmapped.fabric = FabricKind::kTcp;
  TestNodes nodes(std::vector<TestNode::Config>(3, unmapped), "tcp");
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
  const auto frees = [&] {
    return nodes[1].server().node().calls(Method::kFree) +
           nodes[2].server().node().calls(Method::kFree);
  };
  auto former = OpenOrDie(options, "spread");
  fill(former.get(), 1, "old");
  ASSERT_OK(former->CompactRange(nullptr, nullptr));
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
  // It is taken over meanwhile.
  std::thread merging([&] { former->CompactRange(nullptr, nullptr).PermitUncheckedError(); });
  EXPECT_TRUE(Eventually([] { return HeldMerge::IsThere(); }));

  Options failing = options;
  failing.take_over = true;
  failing.fault_injector = std::make_shared<FaultInjector>();
  failing.fault_injector->OnlyPurpose(Purpose::kPublication);
  failing.fault_injector->SetProbability(FaultKind::kFail, 1);
  std::unique_ptr<DB> heir;
  const uint64_t frees_before = frees();
  const Status failed = DB::Open(failing, "spread", &heir);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(frees(), frees_before);
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

}  // namespace
}  // namespace dlsm
