// The rule against a model that looks through the eyes of every reader, for every history of a key
// that is short enough to enumerate.
#include "table/version_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "table/table_testing.h"

namespace dlsm {
namespace {

// Versions have the numbers 2, 4, 6, ...: a snapshot may lie at each of them and on both sides.
constexpr int kVersionsMax = 4;
constexpr SequenceNumber kSnapshotMax = 2 * kVersionsMax + 1;

// A key's versions, newest first.
struct Versions {
  std::vector<SequenceNumber> sequences;
  std::vector<ValueType> types;
};

// All subsets of the numbers 2, 4, ... with every mixture of values and deletions.
std::vector<Versions> AllVersions() {
  std::vector<Versions> all;
  constexpr int kAbsent = 2;
  int count = 1;
  for (int i = 0; i < kVersionsMax; ++i) count *= 3;
  for (int code = 0; code < count; ++code) {
    Versions versions;
    int rest = code;
    for (int i = kVersionsMax; i > 0; --i, rest /= 3) {
      if (rest % 3 == kAbsent) continue;
      versions.sequences.push_back(static_cast<SequenceNumber>(2 * i));
      versions.types.push_back(rest % 3 == 0 ? ValueType::kDeletion : ValueType::kValue);
    }
    all.push_back(versions);
  }
  return all;
}

std::vector<std::vector<SequenceNumber>> AllSnapshots() {
  std::vector<std::vector<SequenceNumber>> all;
  for (uint32_t set = 0; set < uint32_t{1} << kSnapshotMax; ++set) {
    std::vector<SequenceNumber> snapshots;
    for (SequenceNumber i = 1; i <= kSnapshotMax; ++i) {
      if ((set >> (i - 1) & 1) != 0) snapshots.push_back(i);
    }
    all.push_back(snapshots);
  }
  return all;
}

// The version that a reader at `sequence` ends at, by its place; none: it asks what is older.
std::optional<size_t> Seen(const Versions& versions, SequenceNumber sequence) {
  for (size_t i = 0; i < versions.sequences.size(); ++i) {
    if (versions.sequences[i] <= sequence) return i;
  }
  return std::nullopt;
}

// By trying: a version stays if some reader ends at it. One exception: a deletion at which the
// oldest reader ends goes, if no older version can be elsewhere. Every reader that ends there finds
// nothing with or without it.
std::vector<bool> Expected(const Versions& versions, const std::vector<SequenceNumber>& snapshots,
                           bool older_may_hold) {
  std::vector<SequenceNumber> readers = snapshots;
  readers.push_back(kSequenceNumberMax);
  std::vector<bool> stays(versions.sequences.size());
  for (const SequenceNumber reader : readers) {
    const std::optional<size_t> seen = Seen(versions, reader);
    if (seen.has_value()) stays[*seen] = true;
  }
  const std::optional<size_t> oldest = Seen(versions, readers.front());
  if (oldest.has_value() && versions.types[*oldest] == ValueType::kDeletion && !older_may_hold) {
    stays[*oldest] = false;
  }
  return stays;
}

std::vector<bool> Kept(VersionRule* rule, const Slice& user_key, const Versions& versions) {
  std::vector<bool> kept;
  for (size_t i = 0; i < versions.sequences.size(); ++i) {
    kept.push_back(rule->Keep(MakeInternalKey(user_key, versions.sequences[i], versions.types[i]),
                              /*same=*/i > 0));
  }
  return kept;
}

class VersionRuleTest : public testing::Test {
 protected:
  const InternalKeyComparator comparator_{BytewiseComparator()};
};

// Fails if any version of a short history stays that nobody sees, or goes that somebody does:
// whatever the snapshots, with older tables that have the key, that do not, and not known.
TEST_F(VersionRuleTest, AgreesWithEveryReader) {
  const std::vector<KeyRange> none;
  const std::vector<KeyRange> with_key = {{"a", "b"}, {"k", "k"}};
  const std::vector<KeyRange> without_key = {{"a", "j"}, {"kk", "z"}};
  struct Older {
    const std::vector<KeyRange>* ranges;
    bool may_hold;
  };
  const std::vector<Older> all_older = {
      {&none, false}, {&with_key, true}, {&without_key, false}, {nullptr, true}};
  const std::vector<Versions> all_versions = AllVersions();
  for (const std::vector<SequenceNumber>& snapshots : AllSnapshots()) {
    for (const Older& older : all_older) {
      for (const Versions& versions : all_versions) {
        VersionRule rule(comparator_, snapshots, older.ranges);
        ASSERT_EQ(Kept(&rule, "k", versions), Expected(versions, snapshots, older.may_hold))
            << "sequences " << testing::PrintToString(versions.sequences) << ", snapshots "
            << testing::PrintToString(snapshots);
      }
    }
  }
}

// Fails if a key's fate depends on the keys before it, among them some whose versions all went.
TEST_F(VersionRuleTest, JudgesEachKeyByItself) {
  const std::vector<KeyRange> older = {{"b", "b"}, {"d", "e"}};
  const std::vector<std::string> keys = {"a", "b", "c", "d", "dd", "e", "f"};
  const std::vector<Versions> all_versions = AllVersions();
  for (const std::vector<SequenceNumber>& snapshots :
       std::vector<std::vector<SequenceNumber>>{{}, {3}, {4, 6}, {1, 5, 9}}) {
    for (size_t first = 0; first < all_versions.size(); ++first) {
      VersionRule rule(comparator_, snapshots, &older);
      for (size_t i = 0; i < keys.size(); ++i) {
        const Versions& versions = all_versions[(first + 31 * i) % all_versions.size()];
        const bool may_hold = keys[i] == "b" || ("d" <= keys[i] && keys[i] <= "e");
        ASSERT_EQ(Kept(&rule, keys[i], versions), Expected(versions, snapshots, may_hold))
            << keys[i] << " of " << first;
      }
    }
  }
}

// Fails if a snapshot is left out that decides about a version, or kept that decides about none.
TEST_F(VersionRuleTest, DecidesByTheDecidingSnapshotsAlone) {
  const std::vector<KeyRange> none;
  for (const std::vector<SequenceNumber>& snapshots : AllSnapshots()) {
    for (const Versions& versions : AllVersions()) {
      if (versions.sequences.empty()) continue;
      const SequenceNumber least = versions.sequences.back();
      const SequenceNumber most = versions.sequences.front();
      std::vector<SequenceNumber> deciding = snapshots;
      KeepDecidingSnapshots(least, most, &deciding);
      VersionRule by_all(comparator_, snapshots, &none);
      VersionRule by_deciding(comparator_, deciding, &none);
      ASSERT_EQ(Kept(&by_deciding, "k", versions), Kept(&by_all, "k", versions))
          << "sequences " << testing::PrintToString(versions.sequences) << ", snapshots "
          << testing::PrintToString(snapshots);
      const auto sees_none = [least](SequenceNumber snapshot) { return snapshot < least; };
      EXPECT_LE(std::ranges::count_if(deciding, sees_none), 1);
      EXPECT_TRUE(deciding.empty() || deciding.back() < most);
    }
  }
}

// Where the order is the application's own, older tables are those of that order.
TEST_F(VersionRuleTest, AsksOlderTablesInTheOrderOfTheKeys) {
  const InternalKeyComparator reverse(ReverseBytewiseComparator());
  const std::vector<KeyRange> older = {{"y", "x"}, {"c", "b"}};
  VersionRule rule(reverse, {}, &older);
  const auto stays = [&rule](const char* user_key) {
    return rule.Keep(MakeInternalKey(user_key, 1, ValueType::kDeletion), /*same=*/false);
  };
  EXPECT_FALSE(stays("z"));
  EXPECT_TRUE(stays("y"));
  EXPECT_TRUE(stays("x"));
  EXPECT_FALSE(stays("d"));
  EXPECT_TRUE(stays("c"));
  EXPECT_FALSE(stays("a"));
}

}  // namespace
}  // namespace dlsm
