#include "table/block_table_index.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "table/table_testing.h"

namespace dlsm {
namespace {

constexpr size_t kLongKeyBytes = 50'000;
constexpr uint64_t kBlockBytes = 100;

// Of one record a block. `keys` ascend.
std::string BuildBlockIndex(const InternalKeyComparator& comparator,
                            const std::vector<std::string>& keys) {
  BlockTableIndexBuilder builder(comparator);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Slice first = builder.first();
    builder.Add(i + 1 < keys.size()
                    ? SeparatorBetween(comparator, keys[i], keys[i + 1])
                    : SeparatorBehind(comparator, first.empty() ? nullptr : &first, keys[i]),
                (i + 1) * kBlockBytes);
  }
  std::string bytes;
  builder.Finish(&bytes);
  EXPECT_LE(bytes.size(), builder.BytesBound());
  return bytes;
}

std::vector<std::string> Keys(const std::string& before, const std::string& behind, bool reverse) {
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back(
        MakeInternalKey(before + fmt::format("{:03}", reverse ? 198 - 2 * i : 2 * i) + behind, 5));
  }
  return keys;
}

// Fails if the index has whole keys where a part tells blocks apart, or more than once what all
// keys of a table begin with; or if it sends who looks for a key to another block.
TEST(BlockTableIndexTest, LongKeysCostFewBytes) {
  const std::string filling(kLongKeyBytes, 'k');
  for (const bool reverse : {false, true}) {
    const InternalKeyComparator comparator(reverse ? ReverseBytewiseComparator()
                                                   : BytewiseComparator());
    for (const bool early : {false, true}) {
      SCOPED_TRACE(testing::Message() << "reverse " << reverse << " early " << early);
      const std::string before = early ? "" : filling;
      const std::string behind = early ? filling : "";
      const std::vector<std::string> keys = Keys(before, behind, reverse);
      const std::string bytes = BuildBlockIndex(comparator, keys);
      EXPECT_LT(bytes.size(), (early ? 0 : kLongKeyBytes) + keys.size() * 30 + 500);
      EXPECT_LT(BuildBlockIndex(comparator, {keys.front()}).size(), 500u);
      BlockTableIndex index(comparator);
      ASSERT_OK(index.Open(bytes, keys.size() * kBlockBytes));
      for (uint32_t i = 0; i < keys.size(); ++i) EXPECT_EQ(index.BlockFor(keys[i]), i);
      const auto block_for = [&index](const std::string& user_key) {
        return size_t{index.BlockFor(MakeInternalKey(user_key, 5))};
      };
      const size_t first = 0;
      EXPECT_EQ(block_for(""), reverse ? keys.size() : first);
      EXPECT_EQ(block_for(filling.substr(0, kLongKeyBytes / 2)),
                reverse == early ? first : keys.size());
      EXPECT_EQ(block_for("z"), reverse ? first : keys.size());
    }
  }
}

// Fails if an index without long keys can no longer be read by who knows the first version only.
TEST(BlockTableIndexTest, ShortKeysAreWrittenInTheFirstVersion) {
  const InternalKeyComparator comparator(BytewiseComparator());
  EXPECT_EQ(DecodeFixed32(BuildBlockIndex(comparator, Keys("user", "", false)).data()), 1u);
  EXPECT_EQ(
      DecodeFixed32(
          BuildBlockIndex(comparator, Keys(std::string(kLongKeyBytes, 'k'), "", false)).data()),
      2u);
}

// Fails if an index with a prefix is believed in an order in which a prefix means nothing.
TEST(BlockTableIndexTest, APrefixMeansNothingInOtherOrders) {
  class Own final : public Comparator {
   public:
    int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
    const char* Name() const override { return "test.Own"; }
    void FindShortestSeparator(std::string*, const Slice&) const override {}
    void FindShortSuccessor(std::string*) const override {}
  };
  const Own own;
  const std::vector<std::string> keys = Keys(std::string(1000, 'k'), "", false);
  const std::string bytes = BuildBlockIndex(InternalKeyComparator(BytewiseComparator()), keys);
  BlockTableIndex index{InternalKeyComparator(&own)};
  EXPECT_TRUE(index.Open(bytes, keys.size() * kBlockBytes).IsCorruption());
  EXPECT_EQ(DecodeFixed32(BuildBlockIndex(InternalKeyComparator(&own), keys).data()), 1u);
}

}  // namespace
}  // namespace dlsm
