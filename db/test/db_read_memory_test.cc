// Reads for which the process has no memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
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
  CatchUp();
  ASSERT_OK(reader().Get(ReadOptions(), "a", &value));
  EXPECT_EQ(value, value_);
  PinnableSlice pinned;
  pinned.PinSelf("before");
  {
    const port::FailingAllocationsAt failing("value");
    ExpectToldOfMemory(reader().Get(ReadOptions(), "a", &pinned));
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(pinned.empty());
  ASSERT_OK(reader().Get(ReadOptions(), "a", &pinned));
  EXPECT_EQ(pinned.ToString(), value_);
}

// There is no memory from the first value on, from the second one, and so on, in each form of
// MultiGet. Fails if a key is taken for found, or if another one suffers.
TEST_P(ReadMemoryTest, AMultiGetSaysSoOfEachKey) {
  CatchUp();
  ASSERT_EQ(GetOr(&reader(), "a"), value_);  // There is memory for what it reads by.
  const std::vector<Slice> keys = {"none", "a", "a", "a"};
  for (const bool pins : {false, true}) {
    for (int64_t made = 0; made < 4; ++made) {
      SCOPED_TRACE(testing::Message() << (pins ? "pinned, after " : "copied, after ") << made);
      std::vector<std::string> values(keys.size());
      std::vector<PinnableSlice> pinned(keys.size());
      std::vector<Status> statuses(keys.size());
      const port::FailingAllocationsAt failing("value", made);
      if (pins) {
        reader().MultiGet(ReadOptions(), keys.size(), keys.data(), pinned.data(), statuses.data());
      } else {
        statuses = reader().MultiGet(ReadOptions(), keys, &values);
      }
      EXPECT_TRUE(statuses[0].IsNotFound()) << statuses[0].ToString();
      uint64_t refused = 0;
      for (size_t i = 1; i < keys.size(); ++i) {
        const Slice found = pins ? Slice(pinned[i]) : Slice(values[i]);
        EXPECT_EQ(found.ToString(), statuses[i].ok() ? value_ : "") << i;
        if (statuses[i].ok()) continue;
        ExpectToldOfMemory(statuses[i]);
        ++refused;
      }
      EXPECT_EQ(refused, failing.failed());
      EXPECT_EQ(refused, keys.size() - 1 - static_cast<uint64_t>(made));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryHandle, ReadMemoryTest,
                         testing::Values(Named<Reader>{"owner", Reader::kOwner},
                                         Named<Reader>{"follower", Reader::kFollower}),
                         NameOf<Reader>);

}  // namespace
}  // namespace dlsm
