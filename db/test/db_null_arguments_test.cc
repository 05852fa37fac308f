// Null pointers, and snapshots of others, where the interface needs something else.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/handle/open_testing.h"
#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

constexpr std::string* kNoString = nullptr;
constexpr PinnableSlice* kNoPinned = nullptr;

// Of an owner, and of a follower of its database.
class NullArgumentsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_.publish_interval_ms = 1;
    owner_ = OpenOrDie(options_, kName);
    ASSERT_OK(owner_->Put(WriteOptions(), "key", "value"));
    ASSERT_OK(owner_->Flush(FlushOptions()));
    if (!GetParam()) return;
    ASSERT_OK(DB::OpenFollower(options_, kName, &follower_));
    ASSERT_TRUE(Eventually([this] {
      EXPECT_OK(follower_->TryCatchUp());
      return GetOr(follower_.get(), "key") == "value";
    }));
  }
  void TearDown() override {
    if (follower_ != nullptr) {
      EXPECT_OK(follower_->Close());
    }
    CloseAndDestroy(&owner_, options_, kName);
  }
  DB* db() { return GetParam() ? follower_.get() : owner_.get(); }
  // The other kind of handle; null: there is none.
  DB* other() { return GetParam() ? owner_.get() : nullptr; }

  static constexpr char kName[] = "null arguments";
  TestNode node_;
  const Slice key_ = "key";
  Options options_ = node_.With(TinyOptions(), "shm");
  std::unique_ptr<DB> owner_;
  std::unique_ptr<DB> follower_;
};

INSTANTIATE_TEST_SUITE_P(Handles, NullArgumentsTest, testing::Bool(),
                         [](const auto& follows) { return follows.param ? "Follower" : "Owner"; });

// Fails if a call reads or writes what is not there, or does not say so.
TEST_P(NullArgumentsTest, AreErrors) {
  std::vector<std::string> values;
  PinnableSlice pinned;
  const auto multi_get = [this](const Slice* keys, PinnableSlice* to) {
    Status status;
    db()->MultiGet(ReadOptions(), 1, keys, to, &status);
    return status;
  };
  const struct {
    const char* what;
    std::function<Status()> call;
  } cases[] = {
      {"Get, value", [&] { return db()->Get(ReadOptions(), "key", kNoString); }},
      {"Get, pinned value", [&] { return db()->Get(ReadOptions(), "key", kNoPinned); }},
      {"MultiGet, values",
       [&] {
         const std::vector<Slice> two = {"key", "key"};
         const std::vector<Status> got = db()->MultiGet(ReadOptions(), two, nullptr);
         EXPECT_EQ(got.size(), 2u);
         return got.back();
       }},
      {"MultiGet, keys", [&] { return multi_get(nullptr, &pinned); }},
      {"MultiGet, pinned values", [&] { return multi_get(&key_, nullptr); }},
      {"Open", [&] { return DB::Open(options_, "x", static_cast<DB**>(nullptr)); }},
      {"Open, owned",
       [&] { return DB::Open(options_, "x", static_cast<std::unique_ptr<DB>*>(nullptr)); }},
      {"OpenFollower", [&] { return DB::OpenFollower(options_, "x", static_cast<DB**>(nullptr)); }},
      {"OpenFollower, owned",
       [&] { return DB::OpenFollower(options_, "x", static_cast<std::unique_ptr<DB>*>(nullptr)); }},
      {"Write", [&] { return owner_->Write(WriteOptions(), nullptr); }},
      {"Iterate", [] { return WriteBatch().Iterate(nullptr); }},
  };
  for (const auto& each : cases) {
    const Status status = each.call();
    EXPECT_TRUE(status.IsInvalidArgument()) << each.what << ": " << status.ToString();
    EXPECT_TRUE(Says(status, "null")) << each.what;
  }
}

// Fails if a call that returns no Status does anything but nothing.
TEST_P(NullArgumentsTest, HaveNoEffectWhereThereIsNoStatus) {
  PinnableSlice pinned;
  db()->MultiGet(ReadOptions(), 1, &key_, &pinned, nullptr);
  EXPECT_TRUE(pinned.empty());
  db()->MultiGet(ReadOptions(), 0, nullptr, nullptr, nullptr);
  EXPECT_FALSE(db()->GetProperty("dlsm.stats", nullptr));
  EXPECT_FALSE(db()->GetIntProperty("dlsm.entries", nullptr));
  db()->ReleaseSnapshot(nullptr);
  const Range range("a", "z");
  uint64_t bytes = 77;
  db()->GetApproximateSizes(nullptr, 1, &bytes);
  EXPECT_EQ(bytes, 0u);
  bytes = 77;
  db()->GetApproximateSizes(&range, -1, &bytes);
  db()->GetApproximateSizes(&range, 0, &bytes);
  db()->GetApproximateSizes(nullptr, 0, nullptr);
  db()->GetApproximateSizes(&range, 1, nullptr);
  EXPECT_EQ(bytes, 77u);
  const std::unique_ptr<GetPipeline> pipeline = db()->NewGetPipeline(ReadOptions(), 1);
  EXPECT_OK(pipeline->Submit("key", 1));
  EXPECT_FALSE(pipeline->Next(nullptr));
  EXPECT_EQ(pipeline->outstanding(), 1u);
  const std::unique_ptr<Iterator> iterator(db()->NewIterator(ReadOptions()));
  iterator->RegisterCleanup(nullptr, nullptr, nullptr);
}

// Null is the present, no bound, the first or the last key.
TEST_P(NullArgumentsTest, HaveAMeaningSomewhere) {
  ReadOptions options;
  options.snapshot = nullptr;
  options.iterate_lower_bound = options.iterate_upper_bound = nullptr;
  EXPECT_EQ(GetOr(db(), "key", options), "value");
  if (!GetParam()) {
    EXPECT_OK(db()->CompactRange(nullptr, nullptr));
  }
  EXPECT_EQ(GetOr(db(), Slice(static_cast<const char*>(nullptr))), "(none)");
}

// Fails if a snapshot that is not the handle's is taken for one: it may be of another type.
TEST_P(NullArgumentsTest, SnapshotsOfOthersAreRefused) {
  const std::unique_ptr<DB> second = OpenOrDie(options_, "second");
  for (DB* const maker : {second.get(), other()}) {
    if (maker == nullptr) continue;
    const Snapshot* const snapshot = maker->GetSnapshot();
    ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    PinnableSlice pinned;
    EXPECT_TRUE(db()->Get(options, "key", &value).IsInvalidArgument());
    EXPECT_TRUE(db()->Get(options, "key", &pinned).IsInvalidArgument());
    std::vector<std::string> values;
    EXPECT_TRUE(db()->MultiGet(options, {"key"}, &values)[0].IsInvalidArgument());
    const std::unique_ptr<Iterator> iterator(db()->NewIterator(options));
    iterator->SeekToFirst();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().IsInvalidArgument());
    EXPECT_TRUE(db()->NewGetPipeline(options, 1)->Submit("key", 1).IsInvalidArgument());
    db()->ReleaseSnapshot(snapshot);  // It stays its maker's.
    const Status got = maker->Get(options, "no such key", &value);
    EXPECT_TRUE(got.IsNotFound()) << got.ToString();
    maker->ReleaseSnapshot(snapshot);
  }
  EXPECT_OK(second->Close());
  EXPECT_OK(DestroyDB("second", options_));
}

}  // namespace
}  // namespace dlsm
