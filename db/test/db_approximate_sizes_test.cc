// GetApproximateSizes() of whole databases, against an exact model.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "db/test/test_database_testing.h"
#include "table/internal_key.h"
#include "table/record.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr char kSizesName[] = "sizes";
constexpr size_t kRunsOfSizes = 3;

// An order that no table format knows: by length first.
class ByLength final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  const char* Name() const override { return "test.ByLength"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

const Comparator* LengthOrder() {
  static const ByLength order;
  return &order;
}

struct SizesShape {
  const char* name;
  const Comparator* order;
  TableFormat format = TableFormat::kByteAddressable;
  size_t shards = 1;
  uint64_t memory_budget = 0;
};

void PrintTo(const SizesShape& shape, std::ostream* out) { *out << shape.name; }

std::vector<SizesShape> AllSizesShapes() {
  constexpr auto kBlocks = TableFormat::kBlockBased;
  return {{.name = "Bytewise", .order = BytewiseComparator()},
          {.name = "Shards", .order = BytewiseComparator(), .shards = 3},
          {.name = "Budget", .order = BytewiseComparator(), .memory_budget = 4 << 20},
          {.name = "Reverse", .order = ReverseBytewiseComparator(), .shards = 2},
          {.name = "OwnOrder", .order = LengthOrder()},
          {.name = "Blocks", .order = BytewiseComparator(), .format = kBlocks},
          {.name = "BlocksReverseShards",
           .order = ReverseBytewiseComparator(),
           .format = kBlocks,
           .shards = 3}};
}

class ApproximateSizesTest : public testing::TestWithParam<SizesShape> {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.write_buffer_size = 512 << 10;
    options_.max_file_size = 4 << 20;
    options_.level0_file_num_compaction_trigger = 100;  // No merges but those that are asked for.
    options_.level0_stop_writes_trigger = 200;
    options_.idle_size_amplification_percent = 0;
    options_.block_size = kBlockBytes;
    options_.comparator = GetParam().order;
    options_.table_format = GetParam().format;
    options_.memory_budget = GetParam().memory_budget;
    for (size_t i = 1; i < GetParam().shards; ++i) options_.shard_boundaries.push_back(SomeKey());
    SortInOrder(&options_.shard_boundaries);
    db_ = OpenOrDie(options_, kSizesName);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kSizesName); }

  std::string SomeKey() {
    return "k" + std::to_string(random_.Uniform(10'000)) + std::string(random_.Uniform(20), 'x');
  }
  void SortInOrder(std::vector<std::string>* keys) const {
    std::ranges::sort(*keys, [this](const std::string& a, const std::string& b) {
      return options_.comparator->Compare(a, b) < 0;
    });
  }

  // One table, or one for each shard.
  void FillRun() {
    std::map<std::string, uint64_t>& run = runs_.emplace_back();
    for (int i = 0; i < 200; ++i) {
      const std::string key = SomeKey();
      const std::string value(random_.Uniform(1000), 'v');
      ASSERT_OK(db_->Put(WriteOptions(), key, value));
      run[key] = RecordBytes(key.size() + kTrailerBytes, value.size());
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
  }
  // Makes of all runs one, with the newest value of each key.
  void MergeRuns() {
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    std::map<std::string, uint64_t> merged;
    for (const auto& run : runs_) {
      for (const auto& [key, bytes] : run) merged[key] = bytes;
    }
    runs_ = {merged};
  }

  uint64_t SizeOf(const Slice& start, const Slice& limit) {
    const Range range(start, limit);
    uint64_t size = 0;
    db_->GetApproximateSizes(&range, 1, &size);
    return size;
  }

  void CheckRange(const std::string& start, const std::string& limit) {
    SCOPED_TRACE(testing::Message() << start << " to " << limit);
    const Comparator& order = *options_.comparator;
    uint64_t exact = 0;
    uint64_t off_max = 0;
    for (const auto& run : runs_) {
      uint64_t key_bytes = 0;
      for (const auto& [key, bytes] : run) {
        key_bytes = std::max(key_bytes, bytes);
        if (order.Compare(start, key) <= 0 && order.Compare(key, limit) < 0) exact += bytes;
      }
      const bool blocks = GetParam().format == TableFormat::kBlockBased;
      off_max += blocks ? kBlockBytes + 2 * key_bytes : key_bytes;
    }
    const uint64_t about = SizeOf(start, limit);
    ASSERT_TRUE(about > 0 || exact == 0) << about << " of " << exact;
    ASSERT_LE(about, exact + off_max);
    // Blocks have keys without what those before have in common with them.
    ASSERT_GE(about + off_max + exact / 4, exact);
  }

  void CheckRanges() {
    for (const auto& run : runs_) {
      for (const auto& [key, bytes] : run) {
        ASSERT_NO_FATAL_FAILURE(CheckRange(key, key + "\x01"));
        ASSERT_NO_FATAL_FAILURE(CheckRange(key, key + "suffix"));
      }
    }
    for (int i = 0; i < 500; ++i) {
      std::vector<std::string> bounds = {SomeKey(), SomeKey()};
      SortInOrder(&bounds);
      ASSERT_NO_FATAL_FAILURE(CheckRange(bounds[0], bounds[1]));
      ASSERT_EQ(bounds[0] == bounds[1] ? 0 : SizeOf(bounds[1], bounds[0]), 0u);
      ASSERT_EQ(SizeOf(bounds[0], bounds[0]), 0u);
    }
  }

  static constexpr size_t kBlockBytes = 2048;

  Random random_{2027};
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<std::map<std::string, uint64_t>> runs_;  // Of each key, the bytes of its record.
};

// Fails if a range is off by more than one key for each run, or if one is 0 that holds something.
TEST_P(ApproximateSizesTest, AreOffByOneKeyOfEachRunAtMost) {
  for (size_t run = 0; run < kRunsOfSizes; ++run) ASSERT_NO_FATAL_FAILURE(FillRun());
  ASSERT_NO_FATAL_FAILURE(CheckRanges());
  ASSERT_NO_FATAL_FAILURE(MergeRuns());
  ASSERT_NO_FATAL_FAILURE(CheckRanges());
}

std::string SizesShapeName(const testing::TestParamInfo<SizesShape>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(EveryShape, ApproximateSizesTest, testing::ValuesIn(AllSizesShapes()),
                         SizesShapeName);

}  // namespace
}  // namespace dlsm
