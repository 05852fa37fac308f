#include "table/table_check.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "dLSM/filter_policy.h"
#include "table/table_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

// An order that only this test knows.
class ByLastByte final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    const int last = (a.empty() ? 0 : a[a.size() - 1]) - (b.empty() ? 0 : b[b.size() - 1]);
    return last != 0 ? last : a.compare(b);
  }
  const char* Name() const override { return "test.ByLastByte"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

struct CheckedShape {
  std::string name;
  TableFormat format;
  const Comparator* order;
};

void PrintTo(const CheckedShape& shape, std::ostream* out) { *out << shape.name; }

const Comparator* OwnOrderOfTheTest() {
  static const ByLastByte order;
  return &order;
}

class TableCheckTest : public testing::TestWithParam<CheckedShape> {
 protected:
  TableCheckTest() : queue_pairs_(&memory_, /*direct=*/true) {
    options_.format = GetParam().format;
    options_.comparator = GetParam().order;
    options_.filter_policy = bloom_.get();
    options_.block_bytes = 200;
    options_.compression = kSnappyCompression;
    for (int i = 0; i < 60; ++i) {
      records_.emplace_back(MakeInternalKey(fmt::format("a common prefix {:03}", i / 2), 9 - i % 2,
                                            i % 7 == 0 ? ValueType::kDeletion : ValueType::kValue),
                            i % 7 == 0 ? "" : fmt::format("{}{}", i, std::string(20, 'v')));
    }
    SortRecords(options_.comparator, &records_);
  }
  void SetUp() override { BuildTestTable(options_, records_, &memory_, &queue_pairs_, &table_); }

  char* Image() { return memory_.At(table_.meta.image); }
  Status Check(const TableMeta& meta) {
    return CheckTable(GetParam().order->Name(), meta, Slice(Image(), meta.image.bytes));
  }

  const std::unique_ptr<const FilterPolicy> bloom_{NewBloomFilterPolicy(10)};
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  TableOptions options_;
  TestRecords records_;
  TestTable table_;
};

// Fails if a whole table is called damaged, or if there is a bit of it that no checksum covers.
TEST_P(TableCheckTest, EveryBitCounts) {
  ASSERT_OK(Check(table_.meta));
  for (uint64_t byte = 0; byte < table_.meta.image.bytes; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Image()[byte] = static_cast<char>(Image()[byte] ^ 1 << bit);
      EXPECT_TRUE(Check(table_.meta).IsCorruption()) << byte << " of " << table_.meta.image.bytes;
      Image()[byte] = static_cast<char>(Image()[byte] ^ 1 << bit);
    }
  }
  EXPECT_OK(Check(table_.meta));
}

// Fails if a whole table is taken for another one, which the manifest means.
TEST_P(TableCheckTest, TheMetaCounts) {
  TableMeta meta = table_.meta;
  --meta.deletions;
  EXPECT_THAT(Check(meta).ToString(), HasSubstr("60 entries"));
  meta = table_.meta;
  meta.entries += 16;
  EXPECT_TRUE(Check(meta).IsCorruption());
  meta = table_.meta;
  meta.sequence_min = 9;
  EXPECT_THAT(Check(meta).ToString(), HasSubstr("older or newer"));
  meta = table_.meta;
  ++meta.data_bytes;
  --meta.index_bytes;
  EXPECT_TRUE(Check(meta).IsCorruption());
  meta = table_.meta;
  ++meta.filter_bytes;
  EXPECT_TRUE(Check(meta).IsCorruption());
}

INSTANTIATE_TEST_SUITE_P(
    EveryShape, TableCheckTest,
    testing::Values(
        CheckedShape{"Byte", TableFormat::kByteAddressable, BytewiseComparator()},
        CheckedShape{"ByteReverse", TableFormat::kByteAddressable, ReverseBytewiseComparator()},
        CheckedShape{"ByteOwn", TableFormat::kByteAddressable, OwnOrderOfTheTest()},
        CheckedShape{"Block", TableFormat::kBlockBased, BytewiseComparator()},
        CheckedShape{"BlockReverse", TableFormat::kBlockBased, ReverseBytewiseComparator()},
        CheckedShape{"BlockOwn", TableFormat::kBlockBased, OwnOrderOfTheTest()}),
    [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace dlsm
