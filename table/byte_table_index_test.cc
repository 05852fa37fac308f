// The index by itself: what it costs, and what it does with bytes that are no index.
#include "table/byte_table_index.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "dLSM/filter_policy.h"
#include "table/table_testing.h"
#include "util/checksum.h"
#include "util/hash.h"
#include "util/hex_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr uint32_t kRecordBytes = 435;

// `lengths`: of the records, in turn.
std::string BuildByteIndex(const std::vector<std::string>& internal_keys,
                           const std::vector<uint32_t>& lengths = {kRecordBytes}) {
  ByteTableIndexBuilder builder{InternalKeyComparator(BytewiseComparator())};
  uint64_t offset = 0;
  const std::string* last = nullptr;
  for (size_t i = 0; i < internal_keys.size(); ++i) {
    const std::string& key = internal_keys[i];
    const Slice last_key = last == nullptr ? Slice() : Slice(*last);
    const bool same = last != nullptr && ExtractUserKey(*last) == ExtractUserKey(key);
    const uint32_t record_bytes = lengths[i % lengths.size()];
    builder.Add(last_key, key, Hash64(ExtractUserKey(key)), same, offset, record_bytes);
    offset += record_bytes;
    last = &key;
  }
  std::string bytes;
  builder.Finish(last == nullptr ? Slice() : Slice(*last), offset, &bytes);
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

// A table of the usual size must cost at most 6 bytes of local memory for each key.
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
  EXPECT_LE(index + filter, 6);
}

// Fails if the index has whole keys where a part tells them apart, or more than once what all keys
// of a table have in common.
TEST(ByteTableIndexTest, LongKeysCostFewBytes) {
  constexpr size_t kKeys = 100;
  constexpr size_t kLong = 50'000;
  std::vector<std::string> differ_early;
  std::vector<std::string> differ_late;
  for (const std::string& key : DecimalKeys(kKeys)) {
    const std::string number = ExtractUserKey(key).ToString();
    differ_early.push_back(MakeInternalKey(number + std::string(kLong, 'k'), 5));
    differ_late.push_back(MakeInternalKey(std::string(kLong, 'k') + number, 5));
  }
  EXPECT_LT(BuildByteIndex(differ_early).size(), kKeys * 10 + 500);
  EXPECT_LT(BuildByteIndex({differ_early.front()}).size(), 500);
  EXPECT_LT(BuildByteIndex(differ_late).size(), kLong + kKeys * 10 + 500);
  EXPECT_LT(BuildByteIndex({differ_late.front()}).size(), 500);
  // The second key may be the first of a group, behind many versions of the first one.
  std::vector<std::string> versions;
  for (SequenceNumber sequence = 2 * kGroupRecords; sequence > 0; --sequence) {
    versions.push_back(MakeInternalKey(std::string(kLong, 'k'), sequence));
  }
  versions.push_back(MakeInternalKey(std::string(kLong, 'k') + "1", 5));
  versions.push_back(MakeInternalKey(std::string(kLong, 'k') + "2", 5));
  EXPECT_LT(BuildByteIndex(versions).size(), 3 * kLong);
}

TEST(ByteTableIndexTest, StartsFilterAtACacheLine) {
  for (size_t keys = 1; keys < 40; ++keys) {
    EXPECT_EQ(BuildByteIndex(DecimalKeys(keys)).size() % 64, 0);
  }
}

// Fails if the search among sampled digests leaves the right stretch, in one call or by steps: at
// its first and last group, in the last stretch, which is shorter, and where many groups, and
// samples, have one digest.
TEST(ByteTableIndexTest, FindsEveryKeyOfManyGroups) {
  constexpr size_t kStretch = size_t{8} * kGroupRecords;  // Between two samples.
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
      const std::string bytes = BuildByteIndex(keys);
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

// The bytes were computed from the layout in byte_table_index.h by another program: two groups, of
// which one is uniform and begins with a further version, entries with each field in its byte and
// behind it, and fingerprints. Fails if any of it changes: tables that were written before, or by
// other clients, would be misread.
TEST(ByteTableIndexTest, BytesArePartOfTheFormats) {
  std::vector<std::string> keys;
  for (int i = 0; i <= 10; ++i) keys.push_back(MakeInternalKey(fmt::format("user{:02}", i), 5));
  for (const SequenceNumber sequence : {9, 7}) keys.push_back(MakeInternalKey("user11", sequence));
  keys.push_back(MakeInternalKey("user12", 5));
  keys.push_back(MakeInternalKey("user12bcdefghijk0", 5));
  for (const SequenceNumber sequence : {9, 8}) {
    keys.push_back(MakeInternalKey("user12bcdefghijk1", sequence));
  }
  keys.push_back(MakeInternalKey("user2", 5));
  keys.push_back(MakeInternalKey("user3", 5));
  std::vector<uint32_t> lengths(keys.size(), 100);
  lengths[3] = 300;
  EXPECT_EQ(Hex(BuildByteIndex(keys, lengths)),
            "030000000000000002000000040000004c0000000000000000000000000000000000000000003030"
            "0000000000000000b4ab78dda8c0872bd7c4409d9df1e15867666564636232310807000037000000"
            "5893f2000000000000000000000000000000000000000000340800004c0000000000000000000000"
            "0000000000000000757365720002640131013241ac02334164340135013601370138013902310031"
            "80010900000000000001320062380a636465666768696a6b3100800d64010900000000000068696a"
            "6b31070d320133000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000000000002b065a86");
}

// What an index says of a key by its fingerprints alone.
ByteTableIndex::Answer Ask(const ByteTableIndex& index, const std::string& user_key,
                           ByteTableIndex::Place* place) {
  const uint32_t groups = index.ApproachFurther(user_key, index.Approach(user_key));
  return index.AskFingerprints(user_key, Hash64(user_key), groups, place);
}

// Fails if a fingerprint denies a key that is there or places it wrongly, or if many lookups need
// more than them.
TEST(ByteTableIndexTest, FingerprintsPlaceMostKeysAndDenyMostOthers) {
  for (const size_t count : {1, 15, 16, 17, 1000, 20000}) {
    SCOPED_TRACE(count);
    const std::vector<std::string> keys = DecimalKeys(count);
    const std::string bytes = BuildByteIndex(keys);
    ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
    ASSERT_OK(index.Open(bytes, count * kRecordBytes, count));
    size_t unsure = 0;
    size_t not_denied = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::string key = ExtractUserKey(keys[i]).ToString();
      ByteTableIndex::Place place;
      const auto answer = Ask(index, key, &place);
      ASSERT_NE(answer, ByteTableIndex::Answer::kAbsent) << key;
      if (answer == ByteTableIndex::Answer::kUnsure) ++unsure;
      if (answer == ByteTableIndex::Answer::kPlaced) {
        ASSERT_EQ(place.offset, i * kRecordBytes) << key;
        ASSERT_EQ(place.bytes, kRecordBytes) << key;
      }
      if (Ask(index, key + "x", &place) != ByteTableIndex::Answer::kAbsent) ++not_denied;
    }
    EXPECT_LE(unsure, count / 10 + 1);
    EXPECT_LE(not_denied, count / 10 + 1);
  }
}

// Fails if the zero in place of one more fingerprint is taken for that of a record.
TEST(ByteTableIndexTest, NoRecordIsPlacedBehindTheLast) {
  constexpr size_t kKeys = kGroupRecords - 1;
  const std::string bytes = BuildByteIndex(DecimalKeys(kKeys));
  ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
  ASSERT_OK(index.Open(bytes, kKeys * kRecordBytes, kKeys));
  ByteTableIndex::Place place;
  for (uint64_t i = 0; i < 2000; ++i) {
    if (Ask(index, fmt::format("9{:019}", i), &place) == ByteTableIndex::Answer::kPlaced) {
      ASSERT_LE(place.offset + place.bytes, kKeys * kRecordBytes) << i;
    }
  }
}

// Fails if fingerprints deny a key, or place one that has several versions, or records that are not
// as long as one another: whatever clusters of keys with one digest, of versions and of lengths
// there are, at whatever boundaries of groups.
TEST(ByteTableIndexTest, FingerprintsAreNeverWrong) {
  Random random(11);
  uint64_t placed = 0;
  uint64_t unsure = 0;
  uint64_t not_denied = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    std::set<std::string> user_keys;
    while (user_keys.size() < 200) {
      // Every other table has two long prefixes: nearly all digests are one of two.
      const std::string_view tenant = round % 2 == 0           ? ""
                                      : random.Uniform(2) == 0 ? "tenant-a/user/"
                                                               : "tenant-b/user/";
      const std::string cluster = fmt::format("{}{:08}", tenant, random.Uniform(50));
      const uint64_t size = 1 + random.Uniform(40);
      for (uint64_t i = 0; i < size; ++i) {
        user_keys.insert(cluster + random.Bytes(random.Uniform(3)));
      }
    }
    const bool versions = random.Uniform(2) == 0;
    std::vector<std::string> keys;
    std::vector<uint32_t> lengths;
    std::vector<size_t> firsts;  // Of each user key's versions.
    for (const std::string& user_key : user_keys) {
      firsts.push_back(keys.size());
      const uint64_t count = versions && random.Uniform(8) == 0 ? 1 + random.Uniform(20) : 1;
      for (uint64_t sequence = count; sequence > 0; --sequence) {
        keys.push_back(MakeInternalKey(user_key, sequence));
      }
    }
    firsts.push_back(keys.size());
    std::vector<uint64_t> offsets(1, 0);
    const bool equal = random.Uniform(2) == 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool odd = !equal && random.Uniform(30) == 0;
      lengths.push_back(odd ? 50 : kRecordBytes);
      offsets.push_back(offsets.back() + lengths.back());
    }
    const std::string bytes = BuildByteIndex(keys, lengths);
    ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
    ASSERT_OK(index.Open(bytes, offsets.back(), keys.size()));
    for (int absent = 0; absent < 100; ++absent) {
      const std::string key = ExtractUserKey(keys[random.Uniform(keys.size())]).ToString() + "?!?";
      ByteTableIndex::Place place;
      const uint32_t groups = index.ApproachFurther(key, index.Approach(key));
      const auto outcome =
          index.LocateKey(key, Hash64(key), ByteTableIndex::kNewest, &place, groups);
      ASSERT_NE(outcome, ByteTableIndex::Outcome::kMalformed);
      if (outcome == ByteTableIndex::Outcome::kPlaced && place.may_hold) ++not_denied;
    }
    size_t i = 0;
    for (const std::string& user_key : user_keys) {
      const size_t first = firsts[i++];
      ByteTableIndex::Place place;
      for (size_t version = first; version < firsts[i]; ++version) {
        const uint64_t trailer = ExtractTrailer(keys[version]);
        const uint32_t groups = index.ApproachFurther(user_key, index.Approach(user_key));
        ASSERT_EQ(index.LocateKey(user_key, Hash64(user_key), trailer, &place, groups),
                  ByteTableIndex::Outcome::kPlaced);
        ASSERT_TRUE(place.may_hold) << user_key;
        ASSERT_EQ(place.offset, offsets[version]) << user_key;
        ASSERT_EQ(place.bytes, lengths[version]) << user_key;
      }
      const auto answer = Ask(index, user_key, &place);
      ASSERT_NE(answer, ByteTableIndex::Answer::kAbsent) << user_key;
      if (answer == ByteTableIndex::Answer::kUnsure) {
        ++unsure;
        continue;
      }
      ++placed;
      ASSERT_EQ(firsts[i] - first, 1u) << "several versions of " << user_key;
      ASSERT_EQ(place.offset, offsets[first]) << user_key;
      ASSERT_EQ(place.bytes, lengths[first]) << user_key;
    }
  }
  EXPECT_GT(placed, 5000u);
  EXPECT_GT(unsure, 5000u);
  EXPECT_LT(not_denied, 8000u) << "of 40000";
}

// Whatever the bytes are, if only their checksum is right: no call may crash, hang or leave them.
TEST(ByteTableIndexTest, SurvivesAnyBytes) {
  const size_t kKeys = 50;
  std::vector<std::string> keys = DecimalKeys(kKeys - 20);
  for (SequenceNumber sequence = 30; sequence > 10; --sequence) {
    keys.push_back(MakeInternalKey("~", sequence));
  }
  const std::string good = BuildByteIndex(keys);
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
      const std::string present = ExtractUserKey(keys[random.Uniform(kKeys)]).ToString();
      if (Ask(index, present, &place) == ByteTableIndex::Answer::kPlaced) {
        ASSERT_LE(place.offset + place.bytes, keys.size() * kRecordBytes);
      }
    }
    ByteTableIndex::GroupOffsets offsets;
    for (uint32_t group = 0; group < index.groups(); ++group) (void)index.Offsets(group, &offsets);
  }
  EXPECT_GT(opened, 1000);
}

TEST(ByteTableIndexTest, RefusesTruncation) {
  const std::string good = BuildByteIndex(DecimalKeys(40));
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
    builder.Add(i == 0 ? Slice() : Slice(keys[i - 1]), keys[i], Hash64(ExtractUserKey(keys[i])),
                /*same=*/false, i * kRecordBytes, kRecordBytes);
  }
  std::string bytes;
  builder.Finish(keys.back(), kKeys * kRecordBytes, &bytes);
  EXPECT_LE(bytes.size(), builder.BytesBound());
  ByteTableIndex index(reverse);
  ASSERT_OK(index.Open(bytes, kKeys * kRecordBytes, kKeys));
  for (size_t i = 0; i < kKeys; ++i) {
    const Slice key = ExtractUserKey(keys[i]);
    const uint32_t groups = index.ApproachFurther(key, index.Approach(key));
    EXPECT_EQ(groups, ByteTableIndex::kUnknown);
    ByteTableIndex::Place place;
    EXPECT_EQ(Ask(index, key.ToString(), &place), ByteTableIndex::Answer::kUnsure);
    ASSERT_EQ(index.LocateKey(key, Hash64(key), ByteTableIndex::kNewest, &place, groups),
              ByteTableIndex::Outcome::kPlaced);
    EXPECT_TRUE(place.may_hold);
    EXPECT_EQ(place.offset, i * kRecordBytes);
    ASSERT_EQ(index.Locate(key, ByteTableIndex::kNewest, &place, groups),
              ByteTableIndex::Outcome::kPlaced);
    EXPECT_EQ(place.offset, i * kRecordBytes);
  }
}

TEST(ByteTableIndexTest, RefusesAnotherTable) {
  const std::string good = BuildByteIndex(DecimalKeys(40));
  ByteTableIndex index{InternalKeyComparator(BytewiseComparator())};
  EXPECT_TRUE(index.Open(good, 41 * kRecordBytes, 40).IsCorruption());
  EXPECT_TRUE(index.Open(good, 40 * kRecordBytes, 80).IsCorruption());
  ByteTableIndex reverse{InternalKeyComparator(ReverseBytewiseComparator())};
  EXPECT_TRUE(reverse.Open(good, 40 * kRecordBytes, 40).IsCorruption());
  EXPECT_TRUE(index.Open(good, 40 * kRecordBytes, 40).ok());
}

}  // namespace
}  // namespace dlsm
