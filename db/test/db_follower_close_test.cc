// What followers read of a database whose owner cannot close it as it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "port/sync_point.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

// Clients do not map the memory here: where they do, all that the owner reached is kept until it
// has let go.
class FollowerOfAFailedCloseTest : public testing::Test {
 protected:
  FollowerOfAFailedCloseTest() {
    failing_.node_connector = std::make_shared<WatchedConnector>(
        [this](uint16_t, Method method, const Slice&) {
          // Close() puts the last manifest on its caller's thread; flushes and merges have others.
          const bool lost = refuses_ && method == Method::kPutManifest &&
                            std::this_thread::get_id() == this_thread_;
          if (!lost) return Status::OK();
          ++refused_;
          return Status::IOError("the test has lost this call");
        },
        /*may_still_land=*/std::function<bool()>(),
        [this](Method method, const WatchedConnector::Send& send, std::string* reply,
               Deadline deadline) {
          const Status answered = send(reply, deadline);
          if (!answered.ok() || !loses_answers_ || method != Method::kPutManifest) return answered;
          reply->clear();
          return Status::IOError("the test has lost this answer");
        });
  }

  static TestNode::Config Unmapped() {
    TestNode::Config config;
    config.fabric = FabricKind::kTcp;
    return config;
  }
  // One merge, which the test asks for.
  Options Owner() const {
    Options options = node_.With(OwnerOptions(), "tcp");
    options.compaction_style = CompactionStyle::kLeveled;
    options.num_levels = 2;
    options.level0_file_num_compaction_trigger = 1000;
    options.level0_stop_writes_trigger = 2000;
    return options;
  }

  const std::thread::id this_thread_ = std::this_thread::get_id();
  std::atomic<bool> loses_answers_{false};  // Of manifests that are put.
  std::atomic<bool> refuses_{false};        // The manifest that Close() puts.
  std::atomic<int> refused_{0};
  TestNode node_{Unmapped()};
  Options options_ = Owner();
  Options failing_ = options_;
};

// The answer to the manifest of a merge is lost: so the one in force does not name what the merge
// took in, but the last publication does. And when its owner closes, no other one can be put. Fails
// if what the owner has left behind is free then: others would write where followers read.
TEST_F(FollowerOfAFailedCloseTest, WhatWasPublishedLastIsKeptForItsReaders) {
  constexpr uint64_t kKeys = 2000;
  const std::string value(300, 'v');
  const auto fill = [&](DB* db, const std::string& what) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), what + value));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
  };
  auto owner = OpenOrDie(failing_, "followed");
  fill(owner.get(), "old");
  fill(owner.get(), "new");
  auto follower = FollowOrDie(node_.With(FollowerOptions(), "tcp"), "followed");
  CatchUpWith(owner.get(), follower.get());
  const uint64_t published_bytes = NumberProperty(owner.get(), "dlsm.table-bytes");
  loses_answers_ = true;
  EXPECT_FALSE(owner->CompactRange(nullptr, nullptr).ok());
  loses_answers_ = false;
  ASSERT_OK(follower->TryCatchUp());
  refuses_ = true;
  // If it failed before that, the end would not be published, which is another case.
  const Status closed = owner->Close();
  EXPECT_THAT(closed.ToString(), HasSubstr("the test has lost this call"));
  EXPECT_EQ(refused_, 1);
  owner.reset();
  // When the second one comes the first has been answered, so the memory node has heard by then
  // which publication the follower uses, and freed what that does not need.
  const auto heartbeats = [this] { return node_.server().node().calls(Method::kReaderHeartbeat); };
  const uint64_t heartbeats_before = heartbeats();
  ASSERT_TRUE(Eventually([&] { return heartbeats() >= heartbeats_before + 2; }));
  const uint64_t kept_bytes = node_.used_bytes();
  const Options others = node_.With(TinyOptions(), "tcp");
  auto other = OpenOrDie(others, "other");
  fill(other.get(), "other");
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(GetOr(follower.get(), NumberedKey(i)), "new" + value) << i;
  }
  ASSERT_OK(follower->Close());
  owner = OpenOrDie(options_, "followed");
  EXPECT_GE(kept_bytes, published_bytes + NumberProperty(owner.get(), "dlsm.table-bytes"));
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(GetOr(owner.get(), NumberedKey(i)), "new" + value) << i;
  }
  CloseAndDestroy(&owner, options_, "followed");
  CloseAndDestroy(&other, others, "other");
  EXPECT_EQ(node_.used_bytes(), 0u);
}

// Once the image of a publication has been written, nothing more of it can be.
class CutPublication {
 public:
  explicit CutPublication(FaultInjector* faults) {
    faults->OnlyPurpose(Purpose::kPublication);
    faults_ = faults;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::string_view(place) != "publication: written") return;
      faults_.load()->SetProbability(FaultKind::kFail, 1);
    };
  }
  ~CutPublication() { port::SyncPointHookOfProcess() = nullptr; }
  CutPublication(const CutPublication&) = delete;
  CutPublication& operator=(const CutPublication&) = delete;

 private:
  static inline std::atomic<FaultInjector*> faults_{nullptr};
};

// The last publication is cut short before anybody can see it, and the last manifest cannot be put
// either. Fails if what the owner leaves behind goes by a number that the next owner's first
// publication does not have: nobody could begin to follow that one, and while nobody writes there
// is no other.
TEST_F(FollowerOfAFailedCloseTest, TheNextOwnersFirstPublicationCanBeFollowed) {
  options_.publish_interval_ms = 3600 * 1000;  // Once, at the start.
  failing_.publish_interval_ms = options_.publish_interval_ms;
  failing_.fault_injector = std::make_shared<FaultInjector>();
  const auto published = [](const std::unique_ptr<DB>& db) {
    return FieldOfProperty(db.get(), "dlsm.publications", "number");
  };
  auto owner = OpenOrDie(failing_, "followed");
  ASSERT_TRUE(Eventually([&] { return published(owner) > 0; }));
  const uint64_t number = published(owner);
  ASSERT_OK(owner->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(owner->Flush(FlushOptions()));
  {
    const CutPublication cut(failing_.fault_injector.get());
    refuses_ = true;
    const Status closed = owner->Close();
    EXPECT_THAT(closed.ToString(), HasSubstr("injected fault"));
    EXPECT_EQ(refused_, 1);
    owner.reset();
  }
  owner = OpenOrDie(options_, "followed");
  ASSERT_TRUE(Eventually([&] { return published(owner) > 0; }));
  // Who opens it takes a number, for a publication that has nothing to read, and publishes under
  // the next one.
  EXPECT_EQ(published(owner), number + 2) << "what was cut short could be seen";
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(node_.With(FollowerOptions(), "tcp"), "followed", &follower));
  EXPECT_EQ(GetOr(follower.get(), "key"), "value");
  ASSERT_OK(follower->Close());
  CloseAndDestroy(&owner, options_, "followed");
  EXPECT_EQ(node_.used_bytes(), 0u);
}

}  // namespace
}  // namespace dlsm
