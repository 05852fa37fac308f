// The model of db_stress must notice what a database could do wrong.
#include "benchmarks/stress/expected_state.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/stress/key_space.h"
#include "util/status_testing.h"

namespace dlsm::stress {
namespace {

class ExpectedStateTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 400;

  // The first version of the key from `version` on that is a deletion, or is none.
  uint32_t Find(uint64_t key, uint32_t version, bool deletion) const {
    while (space_.IsDeletion(key, version) != deletion) ++version;
    return version;
  }
  Status Check(uint64_t key, std::optional<uint32_t> version, VersionRange range) const {
    Observation observation{key, version.has_value(), ""};
    if (version.has_value()) observation.value = space_.ValueBytes(key, *version);
    return CheckObservation(space_, observation, range);
  }

  const KeySpace space_{7, kKeys, 500};
  std::vector<char> memory_ = std::vector<char>(ExpectedState::BytesFor(kKeys));
  ExpectedState state_{memory_.data(), kKeys};
};

TEST_F(ExpectedStateTest, KeysComeBackAndAscend) {
  std::string before;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const std::string bytes = space_.KeyBytes(key);
    EXPECT_EQ(space_.KeyFromBytes(bytes), key);
    EXPECT_LT(before, bytes);
    before = bytes;
    EXPECT_EQ(space_.KeyFromBytes(bytes + "x"), std::nullopt);
  }
  EXPECT_EQ(space_.KeyFromBytes("ffffffff"), std::nullopt);
  EXPECT_EQ(space_.KeyFromBytes(""), std::nullopt);
}

// Where the database's order descends, keys and the bounds between them do as well.
TEST_F(ExpectedStateTest, KeysMayDescend) {
  KeySpace space(7, kKeys, 500);
  space.Descend();
  std::string before = space.LowerBound(0);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const std::string bytes = space.KeyBytes(key);
    EXPECT_EQ(space.KeyFromBytes(bytes), key);
    EXPECT_GT(before, bytes);
    EXPECT_GT(bytes, space.LowerBound(key + 1));
    before = space.LowerBound(key + 1);
  }
  EXPECT_EQ(space.KeyFromBytes("00000000"), std::nullopt);
  EXPECT_EQ(space.KeyFromBytes("ffffffff"), std::nullopt);
}

// Fails if a worker owns no group of a kind: it would look for one for ever.
TEST(KeySpaceTest, EveryWriterHasGroupsOfBothKinds) {
  for (const uint64_t count : {64, 68, 400}) {
    for (uint64_t writers = 1; writers <= KeySpace::WritersMax(count); ++writers) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        const KeySpace space(seed, count, 100);
        std::set<uint64_t> of_batches;
        std::set<uint64_t> of_puts;
        for (uint64_t group = 0; group < space.groups(); ++group) {
          const uint64_t writer = space.WriterOf(group, writers);
          ASSERT_LT(writer, writers);
          (KeySpace::IsBatchGroup(group) ? of_batches : of_puts).insert(writer);
        }
        ASSERT_EQ(of_batches.size(), writers) << count << " keys, seed " << seed;
        ASSERT_EQ(of_puts.size(), writers) << count << " keys, seed " << seed;
      }
    }
  }
}

TEST_F(ExpectedStateTest, ForeignValuesAreNoticed) {
  const uint32_t version = Find(5, 1, /*deletion=*/false);
  const std::string value = space_.ValueBytes(5, version);
  EXPECT_EQ(space_.VersionFromBytes(5, value), version);
  EXPECT_EQ(space_.VersionFromBytes(6, value), std::nullopt);
  EXPECT_EQ(space_.VersionFromBytes(5, value + "x"), std::nullopt);
  EXPECT_EQ(space_.VersionFromBytes(5, value.substr(0, 3)), std::nullopt);
  EXPECT_EQ(space_.VersionFromBytes(5, ""), std::nullopt);
  const uint32_t deletion = Find(5, 1, /*deletion=*/true);
  EXPECT_EQ(space_.VersionFromBytes(5, space_.ValueBytes(5, deletion)), std::nullopt);
}

TEST_F(ExpectedStateTest, OnlyPossibleVersionsPass) {
  const uint32_t value = Find(9, 3, /*deletion=*/false);
  EXPECT_OK(Check(9, value, {value, value}));
  EXPECT_OK(Check(9, value, {value - 1, value + 1}));
  EXPECT_TRUE(Check(9, value, {value + 1, value + 5}).IsCorruption());  // A lost write.
  EXPECT_TRUE(Check(9, value, {1, value - 1}).IsCorruption());          // One of the future.
  EXPECT_TRUE(Check(9, std::nullopt, {value, value}).IsCorruption());   // A lost key.
  const uint32_t deletion = Find(9, 3, /*deletion=*/true);
  EXPECT_OK(Check(9, std::nullopt, {deletion, deletion}));
  EXPECT_OK(Check(9, std::nullopt, {0, 0}));
  EXPECT_TRUE(Check(9, value, {deletion, deletion}).IsCorruption());  // What was deleted is back.
}

TEST_F(ExpectedStateTest, TornBatchesAreNoticed) {
  EXPECT_OK(CheckGroup(0, {{3}, {2, 3, 5}, {3}, {3}}));
  EXPECT_TRUE(CheckGroup(0, {{3}, {3}, {4}, {3}}).IsCorruption());
  EXPECT_TRUE(CheckGroup(0, {{3}, {2, 4}, {3}, {3}}).IsCorruption());
}

TEST_F(ExpectedStateTest, OnlyWhatIsDurableOutlivesACrash) {
  const uint32_t first = state_.Start(3);
  state_.Acknowledge(3, first);
  state_.SetDurable(state_.AllAcknowledged());
  const uint32_t second = state_.Start(3);
  state_.Acknowledge(3, second);
  EXPECT_EQ(state_.acknowledged(3), second);
  state_.ForgetUndurable();
  EXPECT_EQ(state_.acknowledged(3), first);
  EXPECT_EQ(state_.started(3), second);  // It may be there all the same.
}

TEST_F(ExpectedStateTest, OnlyWhatIsPersistedOutlivesAPowerFailure) {
  state_.Acknowledge(3, state_.Start(3));
  state_.SetPersisted(state_.AllAcknowledged());
  state_.Acknowledge(3, state_.Start(3));
  state_.SetDurable(state_.AllAcknowledged());
  EXPECT_EQ(state_.AllDurable()[3], 2u);
  EXPECT_EQ(state_.AllPersisted()[3], 1u);
  state_.ForgetUnpersisted();
  EXPECT_EQ(state_.AllDurable()[3], 1u);
  EXPECT_EQ(state_.acknowledged(3), 1u);
  EXPECT_EQ(state_.started(3), 2u);
}

TEST_F(ExpectedStateTest, GroupsHaveOneVersion) {
  state_.Start(space_.KeyOf(4, 2));
  const uint32_t version = state_.StartGroup(space_, 4);
  EXPECT_EQ(version, 2u);
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    EXPECT_EQ(state_.started(space_.KeyOf(4, i)), version);
  }
}

}  // namespace
}  // namespace dlsm::stress
