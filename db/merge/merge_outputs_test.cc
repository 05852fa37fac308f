#include "db/merge/merge_outputs.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "db/test/fake_table_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if what a memory node could not have made is believed: each of these would bring an older
// version in front of a newer one, or a table where reads do not look for it.
TEST(MergeOutputsTest, OnlyWhatTheInputsCanMakeIsBelieved) {
  const InternalKeyComparator comparator(BytewiseComparator());
  MergeOptions options;
  options.has_begin = true;
  options.begin = "b";
  options.has_end = true;
  options.end = "y";
  const std::vector<std::vector<TableRef>> inputs = {MakeFakeTables({{1, "a", "m", 20, 29}}),
                                                     MakeFakeTables({{2, "c", "z", 10, 19}})};
  const NodeId node{3};
  std::vector<TableMeta> honest = {FakeMeta({7, "b", "k", 10, 29}),
                                   FakeMeta({8, "l", "x", 11, 20})};
  for (TableMeta& table : honest) table.image.node = node;
  EXPECT_OK(CheckMergeOutputs(comparator, options, inputs, node, honest));
  EXPECT_OK(CheckMergeOutputs(comparator, options, inputs, node, {}));

  const auto with = [](TableMeta* table, const FakeTable& told) {
    table->smallest = FakeMeta(told).smallest;
    table->largest = FakeMeta(told).largest;
  };
  const std::vector<std::function<void(std::vector<TableMeta>*)>> lies = {
      [](auto* tables) { tables->back().image.node = NodeId{4}; },
      [](auto* tables) { tables->front().format = TableFormat::kBlockBased; },
      [](auto* tables) { std::swap(tables->front().smallest, tables->front().largest); },
      [](auto* tables) { std::swap(tables->front(), tables->back()); },
      [&](auto* tables) {
        with(&tables->front(), {7, "a", "k", 10, 29});
      },
      [&](auto* tables) {
        with(&tables->back(), {8, "l", "y", 11, 20});
      },
      [](auto* tables) { tables->front().sequence_min = 9; },
      [](auto* tables) { tables->back().sequence_max = 30; },
      [](auto* tables) { tables->back().entries = 0; },
      [](auto* tables) { tables->back().entries = 3; },
  };
  for (size_t lie = 0; lie < lies.size(); ++lie) {
    std::vector<TableMeta> told = honest;
    lies[lie](&told);
    EXPECT_TRUE(CheckMergeOutputs(comparator, options, inputs, node, told).IsCorruption()) << lie;
  }
}

// Fails if a merge without bounds of its own may grow into tables beside it, or if one that this
// process has made on any node is refused.
TEST(MergeOutputsTest, AllIsWithinTheInputs) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const MergeOptions options;
  const std::vector<std::vector<TableRef>> inputs = {MakeFakeTables({{1, "c", "m", 20, 29}}),
                                                     MakeFakeTables({{2, "d", "x", 10, 19}})};
  const auto check = [&](const char* smallest, const char* largest) {
    return CheckMergeOutputs(comparator, options, inputs, std::nullopt,
                             {FakeMeta({7, smallest, largest, 10, 29})});
  };
  EXPECT_OK(check("c", "x"));
  EXPECT_OK(check("e", "f"));
  EXPECT_TRUE(check("b", "x").IsCorruption());
  EXPECT_TRUE(check("c", "y").IsCorruption());
}

// Cut points are guards of the level that the outputs go to. Fails if a table may reach from one
// guard into the next: reads look for it in the first one only, and a manifest with it is refused.
TEST(MergeOutputsTest, NoTableLiesAcrossACutPoint) {
  const InternalKeyComparator comparator(BytewiseComparator());
  MergeOptions options;
  options.cut_points = {"b", "f", "k", "kk", "z"};
  const std::vector<std::vector<TableRef>> inputs = {
      MakeFakeTables({{1, "c", "m", 20, 29, 64, 20}}),
      MakeFakeTables({{2, "d", "x", 10, 19, 64, 20}})};
  struct Range {
    std::string smallest;
    std::string largest;
  };
  const auto check = [&](const std::vector<Range>& ranges) {
    std::vector<TableMeta> tables;
    for (const Range& range : ranges) {
      // Of one user key, the newer versions come first.
      const SequenceNumber newest = 29 - tables.size();
      const SequenceNumber last = range.smallest == range.largest ? newest : 10;
      tables.push_back(FakeMeta({7 + tables.size(), range.smallest, range.largest, newest, last}));
    }
    return CheckMergeOutputs(comparator, options, inputs, std::nullopt, tables);
  };
  EXPECT_OK(check({{"c", "e"}, {"f", "j"}, {"kk", "x"}}));
  EXPECT_OK(check({{"c", "ez"}, {"k", "ka"}, {"l", "m"}}));
  EXPECT_OK(check({{"f", "f"}, {"f", "g"}})) << "a key of many versions";
  EXPECT_TRUE(check({{"c", "f"}}).IsCorruption());
  EXPECT_TRUE(check({{"c", "x"}}).IsCorruption());
  EXPECT_TRUE(check({{"c", "e"}, {"g", "k"}}).IsCorruption());
  EXPECT_TRUE(check({{"c", "e"}, {"f", "j"}, {"k", "x"}}).IsCorruption());
  EXPECT_TRUE(check({{"f", "f"}, {"f", "l"}}).IsCorruption());
}

}  // namespace
}  // namespace dlsm
