// A handle of its own stands for a follower that does wrong: the test writes into it what the
// follower shows.
#include "benchmarks/stress/followed_close.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/status_testing.h"

namespace dlsm::stress {
namespace {

using testing::HasSubstr;

class FollowedCloseTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 64;

  ~FollowedCloseTest() override {
    for (const char* name : {"owner", "shown"}) DestroyDB(name, OptionsOf(false)).ok();
  }

  static Options OptionsOf(bool publishes) {
    Options options;
    options.create_if_missing = true;
    options.embedded_memory_bytes = uint64_t{256} << 20;
    options.publish_interval_ms = publishes ? 10 : 0;
    return options;
  }
  std::unique_ptr<DB> Open(const char* name) {
    std::unique_ptr<DB> db;
    EXPECT_OK(DB::Open(OptionsOf(/*publishes=*/std::string(name) == "owner"), name, &db));
    return db;
  }
  // The version of the key from `version` on that is no deletion.
  uint32_t Find(uint64_t key, uint32_t version) const {
    while (space_.IsDeletion(key, version)) ++version;
    return version;
  }
  void Show(DB* db, uint64_t key, uint32_t version) const {
    ASSERT_OK(db->Put(WriteOptions(), space_.KeyBytes(key), space_.ValueBytes(key, version)));
  }

  const KeySpace space_{7, kKeys, 100};
  std::vector<char> memory_ = std::vector<char>(ExpectedState::BytesFor(kKeys));
  ExpectedState state_{memory_.data(), kKeys};
  Worker worker_{Worker::Config{}, &space_, &state_};
};

// Fails if a follower may show less than what was there when the owner opened, or nothing at all.
TEST_F(FollowedCloseTest, AFollowerBeginsAtTheFloor) {
  const auto shown = Open("shown");
  std::vector<uint32_t> floor(kKeys);
  EXPECT_OK(worker_.VerifyFollower(shown.get(), &floor));
  const uint32_t version = Find(5, 1);
  while (state_.Start(5) < version) {
  }
  floor[5] = version;
  EXPECT_TRUE(worker_.VerifyFollower(shown.get(), &floor).IsCorruption());
  Show(shown.get(), 5, version);
  EXPECT_OK(worker_.VerifyFollower(shown.get(), &floor));
}

// Fails if a follower may go back to a state that it has left.
TEST_F(FollowedCloseTest, AFollowerDoesNotGoBack) {
  const auto shown = Open("shown");
  const uint32_t older = Find(5, 1);
  const uint32_t newer = Find(5, older + 1);
  while (state_.Start(5) < newer) {
  }
  std::vector<uint32_t> floor(kKeys);
  Show(shown.get(), 5, older);
  EXPECT_OK(worker_.VerifyFollower(shown.get(), &floor));
  EXPECT_EQ(floor[5], older);
  Show(shown.get(), 5, newer);
  EXPECT_OK(worker_.VerifyFollower(shown.get(), &floor));
  Show(shown.get(), 5, older);
  EXPECT_TRUE(worker_.VerifyFollower(shown.get(), &floor).IsCorruption());
}

TEST_F(FollowedCloseTest, FollowersMoveOnToTheEnd) {
  auto owner = Open("owner");
  FollowedClose followed(1, &space_, &state_, [](std::unique_ptr<DB>* follower) {
    return DB::OpenFollower(OptionsOf(false), "owner", follower);
  });
  EXPECT_OK(followed.Begin(owner.get()));
  EXPECT_OK(owner->Close());
  EXPECT_OK(followed.End());
}

// Fails if a follower passes that stays where it is, or one that comes and finds nothing.
TEST_F(FollowedCloseTest, WhoDoesNotSeeTheEndIsNoticed) {
  for (const bool from_before : {true, false}) {
    auto owner = Open("owner");
    int opened = 0;
    FollowedClose followed(1, &space_, &state_, [&](std::unique_ptr<DB>* follower) {
      if ((++opened == 1) != from_before) {
        return DB::OpenFollower(OptionsOf(false), "owner", follower);
      }
      *follower = Open("shown");
      return Status::OK();
    });
    EXPECT_OK(followed.Begin(owner.get()));
    EXPECT_OK(owner->Close());
    const Status seen = followed.End();
    EXPECT_TRUE(seen.IsCorruption()) << seen.ToString();
    EXPECT_THAT(seen.ToString(),
                HasSubstr(from_before ? "a follower from before" : "a follower that came after"));
  }
}

}  // namespace
}  // namespace dlsm::stress
