// The index by itself: what it costs, and what it does with bytes that are no index.
#include "table/byte_table_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "dLSM/filter_policy.h"
#include "table/table_testing.h"
#include "util/checksum.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr uint32_t kRecordBytes = 435;

std::string BuildIndex(const std::vector<std::string>& internal_keys) {
  ByteTableIndexBuilder builder{InternalKeyComparator(BytewiseComparator())};
  uint64_t offset = 0;
  const std::string* last = nullptr;
  for (const std::string& key : internal_keys) {
    const bool same = last != nullptr && ExtractUserKey(*last) == ExtractUserKey(key);
    builder.Add(key, same, offset, kRecordBytes);
    offset += kRecordBytes;
    last = &key;
  }
  std::string bytes;
  builder.Finish(offset, &bytes);
  EXPECT_LE(bytes.size(), builder.BytesBound());
  return bytes;
}

std::vector<std::string> DecimalKeys(size_t count) {
  Random random(17);
  std::set<std::string> user_keys;
  while (user_keys.size() < count) {
    user_keys.insert(fmt::format("{:020}", random.Next()));
  }
  std::vector<std::string> keys;
  for (const std::string& key : user_keys) keys.push_back(MakeInternalKey(key, 5));
  return keys;
}

// A table of the usual size must cost at most 6.5 bytes of local memory for each key.
TEST(ByteTableIndexTest, CostsFewBytesAKey) {
  constexpr size_t kKeys = 150000;
  TestMemory memory;
  MemoryQueuePairs queue_pairs(&memory);
  const std::unique_ptr<const FilterPolicy> bloom(NewBloomFilterPolicy(10));
  TableOptions options;
  options.filter_policy = bloom.get();
  TestRecords records;
  for (const std::string& key : DecimalKeys(kKeys)) {
    records.emplace_back(key, std::string(8, 'v'));
  }
  TestTable table;
  ASSERT_NO_FATAL_FAILURE(BuildTestTable(options, records, &memory, &queue_pairs, &table));
  const double index = static_cast<double>(table.meta.index_bytes) / kKeys;
  const double filter = static_cast<double>(table.meta.filter_bytes) / kKeys;
  RecordProperty("index_bytes_per_key", fmt::format("{:.2f}", index));
  RecordProperty("filter_bytes_per_key", fmt::format("{:.2f}", filter));
  fmt::print("index {:.2f} and filter {:.2f} bytes a key\n", index, filter);
  EXPECT_LE(index + filter, 6.5);
}

TEST(ByteTableIndexTest, StartsFilterAtACacheLine) {
  for (size_t keys = 1; keys < 40; ++keys) {
    EXPECT_EQ(BuildIndex(DecimalKeys(keys)).size() % 64, 0);
  }
}

// Fails if the search among sampled digests leaves the right stretch, in one call or by steps: at
// its first and last group, in the last stretch, which is shorter, and where many groups, and
// samples, have one digest.
TEST(ByteTableIndexTest, FindsEveryKeyOfManyGroups) {
  constexpr size_t kStretch = size_t{16} * kGroupRecords;  // Between two samples.
  const std::string highest(16, '\xff');
  for (const std::string& same : {std::string(), std::string("1the same digest "), highest}) {
    for (const size_t count : {kStretch - 1, kStretch, kStretch + 1, 3 * kStretch + 40}) {
      SCOPED_TRACE(fmt::format("{} keys that begin with '{}'", count, same));
      std::vector<std::string> keys = DecimalKeys(count);
      if (!same.empty()) {  // All but a few of them.
        for (size_t i = 0; i < 20; ++i) keys[i] = MakeInternalKey(fmt::format("0{:04}", i), 5);
        for (size_t i = 20; i < count; ++i) {
          keys[i] = MakeInternalKey(fmt::format("{}{:06}", same, i), 5);
        }
        for (size_t i = count - 20; i < count && same != highest; ++i) {
          keys[i] = MakeInternalKey(fmt::format("2{:04}", i), 5);
        }
      }
      const std::string bytes = BuildIndex(keys);
      ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
      ASSERT_TRUE(index.Open(bytes, count * kRecordBytes, count).ok());
      ByteTableIndex::Place place;
      EXPECT_EQ(index.Locate("", ByteTableIndex::kNewest, &place),
                ByteTableIndex::Outcome::kBeforeAll);
      for (size_t i = 0; i < count; ++i) {
        const std::string key = ExtractUserKey(keys[i]).ToString();
        for (const std::string& target : {key, key + '\0'}) {
          ASSERT_EQ(index.Locate(target, ByteTableIndex::kNewest, &place),
                    ByteTableIndex::Outcome::kPlaced);
          ASSERT_EQ(place.offset, i * kRecordBytes) << target;
          const uint32_t groups = index.ApproachFurther(target, index.Approach(target));
          ASSERT_NE(groups, ByteTableIndex::kUnknown);
          ASSERT_EQ(index.Locate(target, ByteTableIndex::kNewest, &place, groups),
                    ByteTableIndex::Outcome::kPlaced);
          ASSERT_EQ(place.offset, i * kRecordBytes) << target;
        }
      }
    }
  }
}

// Whatever the bytes are, if only their checksum is right: no call may crash, hang or leave them.
TEST(ByteTableIndexTest, SurvivesAnyBytes) {
  const size_t kKeys = 50;
  std::vector<std::string> keys = DecimalKeys(kKeys - 20);
  for (SequenceNumber sequence = 30; sequence > 10; --sequence) {
    keys.push_back(MakeInternalKey("~", sequence));
  }
  const std::string good = BuildIndex(keys);
  const InternalKeyComparator comparator(BytewiseComparator());
  Random random(3);
  int opened = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t flips = 1 + random.Uniform(3); flips > 0; --flips) {
      bytes[random.Uniform(bytes.size() - 4)] = static_cast<char>(random.Next());
    }
    EncodeFixed32(bytes.data() + bytes.size() - 4, Crc32c(bytes.data(), bytes.size() - 4));
    const auto exact = std::make_unique<char[]>(bytes.size());  // Its bounds are watched.
    std::memcpy(exact.get(), bytes.data(), bytes.size());
    ByteTableIndex index(comparator);
    if (!index.Open(Slice(exact.get(), bytes.size()), keys.size() * kRecordBytes, kKeys).ok()) {
      continue;
    }
    ++opened;
    for (const uint64_t trailer : {ByteTableIndex::kNewest, uint64_t{20} << 8, uint64_t{0}}) {
      ByteTableIndex::Place place;
      (void)index.Locate(ExtractUserKey(keys[random.Uniform(kKeys)]), trailer, &place);
      (void)index.Locate(random.Bytes(random.Uniform(30)), trailer, &place);
      const std::string key = random.Bytes(random.Uniform(30));
      (void)index.Locate(key, trailer, &place, index.ApproachFurther(key, index.Approach(key)));
    }
    ByteTableIndex::GroupOffsets offsets;
    for (uint32_t group = 0; group < index.groups(); ++group) (void)index.Offsets(group, &offsets);
  }
  EXPECT_GT(opened, 1000);
}

TEST(ByteTableIndexTest, RefusesTruncation) {
  const std::string good = BuildIndex(DecimalKeys(40));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
    EXPECT_TRUE(index.Open(Slice(good.data(), bytes), 40 * kRecordBytes, 40).IsCorruption());
  }
}

// Fails if steps say something where only the comparator knows the order.
TEST(ByteTableIndexTest, StepsKnowNothingOfOtherOrders) {
  const InternalKeyComparator reverse(ReverseBytewiseComparator());
  ByteTableIndexBuilder builder(reverse);
  constexpr size_t kKeys = 100;
  const std::vector<std::string> ascending = DecimalKeys(kKeys);
  const std::vector<std::string> keys(ascending.rbegin(), ascending.rend());
  for (size_t i = 0; i < kKeys; ++i) {
    builder.Add(keys[i], /*same=*/false, i * kRecordBytes, kRecordBytes);
  }
  std::string bytes;
  builder.Finish(kKeys * kRecordBytes, &bytes);
  EXPECT_LE(bytes.size(), builder.BytesBound());
  ByteTableIndex index(reverse);
  ASSERT_OK(index.Open(bytes, kKeys * kRecordBytes, kKeys));
  for (size_t i = 0; i < kKeys; ++i) {
    const Slice key = ExtractUserKey(keys[i]);
    const uint32_t groups = index.ApproachFurther(key, index.Approach(key));
    EXPECT_EQ(groups, ByteTableIndex::kUnknown);
    ByteTableIndex::Place place;
    ASSERT_EQ(index.Locate(key, ByteTableIndex::kNewest, &place, groups),
              ByteTableIndex::Outcome::kPlaced);
    EXPECT_EQ(place.offset, i * kRecordBytes);
  }
}

TEST(ByteTableIndexTest, RefusesAnotherTable) {
  const std::string good = BuildIndex(DecimalKeys(40));
  ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
  EXPECT_TRUE(index.Open(good, 41 * kRecordBytes, 40).IsCorruption());
  EXPECT_TRUE(index.Open(good, 40 * kRecordBytes, 80).IsCorruption());
  ByteTableIndex reverse{InternalKeyComparator(ReverseBytewiseComparator())};
  EXPECT_TRUE(reverse.Open(good, 40 * kRecordBytes, 40).IsCorruption());
  EXPECT_TRUE(index.Open(good, 40 * kRecordBytes, 40).ok());
}

}  // namespace
}  // namespace dlsm
