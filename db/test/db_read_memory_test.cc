// Reads for which the process has no memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "db/test/allocating_order_testing.h"
#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

enum class Reader { kOwner, kFollower };

class ReadMemoryTest : public testing::TestWithParam<Named<Reader>> {
 protected:
  ReadMemoryTest() : node_(NodeServing("tcp", &owner_options_)) {
    follower_options_.memory_nodes = owner_options_.memory_nodes;
    follower_options_.fabric = owner_options_.fabric;
    owner_ = OpenOrDie(owner_options_, kName);
    EXPECT_OK(owner_->Put(WriteOptions(), "a", value_));
    EXPECT_OK(owner_->Flush(FlushOptions()));
    if (GetParam() == Reader::kFollower) follower_ = FollowOrDie(follower_options_, kName);
  }
  void TearDown() override {
    if (follower_ != nullptr) {
      EXPECT_OK(follower_->Close());
      follower_.reset();
    }
    CloseAndDestroy(&owner_, owner_options_, kName);
  }

  DB& reader() { return follower_ != nullptr ? *follower_ : *owner_; }
  // Until the reader shows "a".
  void CatchUp() {
    if (follower_ != nullptr) CatchUpWith(owner_.get(), follower_.get());
  }
  static void ExpectToldOfMemory(const Status& status) {
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_NE(status.ToString().find("memory"), std::string::npos) << status.ToString();
  }

  static constexpr char kName[] = "read";
  // So long that who pins it has the buffer that it was fetched into.
  const std::string value_ = std::string(10'000, 'v');
  Options owner_options_ = OwnerOptions();
  Options follower_options_ = FollowerOptions();
  const std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> owner_;
  std::unique_ptr<DB> follower_;
};

// Fails if a get throws, or leaves what the value was before as if it had been found.
TEST_P(ReadMemoryTest, AGetSaysSo) {
  std::string value;
  {
    // The thread has not read here yet, and needs what it counts its reads in.
    const port::FailingAllocationsAt failing("per thread");
    ExpectToldOfMemory(reader().Get(ReadOptions(), "a", &value));
    EXPECT_GT(failing.failed(), 0u);
  }
  CatchUp();
  ASSERT_OK(reader().Get(ReadOptions(), "a", &value));
  EXPECT_EQ(value, value_);
  PinnableSlice pinned;
  pinned.PinSelf("before");
  {
    const port::FailingAllocations failing(1);
    ExpectToldOfMemory(reader().Get(ReadOptions(), "a", &pinned));
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(pinned.empty());
  ASSERT_OK(reader().Get(ReadOptions(), "a", &pinned));
  EXPECT_EQ(pinned.ToString(), value_);
}

// The first allocation fails, the second one, and so on, in each form of MultiGet. Fails if one
// throws, or has read keys of which it says that it has not.
TEST_P(ReadMemoryTest, AMultiGetSaysSoOfEachKey) {
  CatchUp();
  ASSERT_EQ(GetOr(&reader(), "a"), value_);  // There is memory for what it reads by.
  const std::vector<Slice> keys = {"none", "a", "a", "a"};
  for (const bool pins : {false, true}) {
    SCOPED_TRACE(pins);
    uint64_t refused = 0;
    for (bool again = true; again;) {
      std::vector<std::string> values(keys.size());
      std::vector<PinnableSlice> pinned(keys.size());
      std::vector<Status> statuses(keys.size());
      const port::FailingAllocations failing(refused + 1);
      if (pins) {
        reader().MultiGet(ReadOptions(), keys.size(), keys.data(), pinned.data(), statuses.data());
      } else {
        statuses = reader().MultiGet(ReadOptions(), keys, &values);
      }
      again = failing.failed() > 0;
      if (again) ++refused;
      for (size_t i = 0; i < keys.size(); ++i) {
        const Slice found = pins ? Slice(pinned[i]) : Slice(values[i]);
        if (again) {
          ExpectToldOfMemory(statuses[i]);
          EXPECT_TRUE(found.empty()) << i;
        } else {
          EXPECT_EQ(statuses[i].IsNotFound(), keys[i] == Slice("none")) << i;
          EXPECT_EQ(found.ToString(), statuses[i].ok() ? value_ : "") << i;
        }
      }
    }
    EXPECT_GT(refused, 1u) << "none was read when memory ended";
  }
}

INSTANTIATE_TEST_SUITE_P(EveryHandle, ReadMemoryTest,
                         testing::Values(Named<Reader>{"owner", Reader::kOwner},
                                         Named<Reader>{"follower", Reader::kFollower}),
                         NameOf<Reader>);

// A get for which there is no memory is an error, and to say of which shard, its key is compared
// once more, for which there is none, either. Fails if that is an exception of the caller's.
TEST(PipelineMemoryTest, AGetWhoseShardCannotBeToldIsAnswered) {
  static const AllocatingOrder order{};  // Also while the database is destroyed.
  Options options = TinyOptions();
  options.comparator = &order;
  options.shard_boundaries = {"m"};
  std::unique_ptr<DB> db = OpenOrDie(options, "piped");
  ASSERT_OK(db->Put(WriteOptions(), "a", "value"));
  ASSERT_OK(db->Flush(FlushOptions()));
  std::unique_ptr<GetPipeline> pipeline = db->NewGetPipeline(ReadOptions(), 4);
  GetPipeline::Answer answer;
  for (const bool lacks_memory : {false, true, false}) {
    ASSERT_OK(pipeline->Submit("a", 1));  // It is looked for when it is waited for.
    if (lacks_memory) {
      const port::FailingAllocations failing(1);
      ASSERT_TRUE(pipeline->Next(&answer));
      EXPECT_GT(failing.failed(), 1u);
      EXPECT_TRUE(answer.status.IsIOError()) << answer.status.ToString();
      EXPECT_EQ(answer.value, "");
    } else {
      ASSERT_TRUE(pipeline->Next(&answer));
      ASSERT_OK(answer.status);
      EXPECT_EQ(answer.value, "value");
    }
    EXPECT_EQ(answer.tag, 1u);
    EXPECT_EQ(pipeline->outstanding(), 0u);
  }
  pipeline.reset();
  CloseAndDestroy(&db, options, "piped");
}

}  // namespace
}  // namespace dlsm
