// Whatever the format, the comparator, the block size, the compression, the filter and the way to
// the data: a table must read like the sorted records it was built from.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <set>

#include "dLSM/cache.h"
#include "dLSM/filter_policy.h"
#include "table/record.h"
#include "table/table_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

// As simple as a filter can be: one bit for each first byte. Tables must not assume more.
class FirstByteFilter final : public FilterPolicy {
 public:
  const char* Name() const override { return "test.FirstByte"; }
  void CreateFilter(const Slice* keys, int n, std::string* filter) const override {
    std::string bits(32, '\0');
    for (int i = 0; i < n; ++i) {
      bits[Byte(keys[i]) / 8] = static_cast<char>(bits[Byte(keys[i]) / 8] | 1 << Byte(keys[i]) % 8);
    }
    filter->append(bits);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return (filter[Byte(key) / 8] >> Byte(key) % 8 & 1) != 0;
  }

 private:
  static size_t Byte(const Slice& key) {
    return key.empty() ? 0 : static_cast<unsigned char>(key[0]);
  }
};

enum class Filter { kNone, kBloom, kUser };

struct TableShape {
  TableFormat format = TableFormat::kByteAddressable;
  bool reverse = false;
  size_t block_bytes = 2048;
  CompressionType compression = kNoCompression;
  Filter filter = Filter::kBloom;
  bool direct = false;
  bool cache = false;
};

std::vector<TableShape> AllTableShapes() {
  std::vector<TableShape> shapes;
  for (const bool reverse : {false, true}) {
    for (const bool direct : {false, true}) {
      for (const Filter filter : {Filter::kNone, Filter::kBloom, Filter::kUser}) {
        TableShape shape;
        shape.reverse = reverse;
        shape.direct = direct;
        shape.filter = filter;
        shapes.push_back(shape);
        shape.format = TableFormat::kBlockBased;
        shapes.push_back(shape);
        shape.cache = true;
        shape.block_bytes = 8192;
        shape.compression = kSnappyCompression;
        shapes.push_back(shape);
        shape.block_bytes = 1;
        shape.compression = kNoCompression;
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

std::string TableShapeName(const TableShape& shape) {
  constexpr const char* kFilters[] = {"NoFilter", "Bloom", "UserFilter"};
  return fmt::format(
      "{}{}{}{}{}{}",
      shape.format == TableFormat::kBlockBased ? fmt::format("Block{}", shape.block_bytes) : "Byte",
      shape.compression == kSnappyCompression ? "Snappy" : "", shape.cache ? "Cached" : "",
      shape.reverse ? "Reverse" : "", kFilters[static_cast<int>(shape.filter)],
      shape.direct ? "Direct" : "");
}

void PrintTo(const TableShape& shape, std::ostream* out) { *out << TableShapeName(shape); }

// Keys of one kind each.
enum class KeyKind {
  kDecimal,
  kBinary,
  kSharedPrefix,
  kLong,
  kLongPrefix,
  kFewDistinct,
  kOne,
  kCount
};

std::string RandomKey(KeyKind kind, Random* random) {
  switch (kind) {
    case KeyKind::kDecimal:
      return fmt::format("{:020}", random->Next());
    case KeyKind::kBinary:  // Empty ones included, and ones that differ by zeros at the end.
      return random->OneIn(4) ? std::string(random->Uniform(12), '\0')
                              : random->Bytes(random->Skewed(4));
    case KeyKind::kSharedPrefix:
      return std::string(100 * random->Uniform(3), 'x') +
             fmt::format("{:05}", random->Uniform(2000));
    case KeyKind::kLong:
      return fmt::format("{:05}", random->Uniform(2000)) + std::string(random->Uniform(300), 'y');
    case KeyKind::kLongPrefix:
      return std::string(150, 'x') + RandomKey(KeyKind::kLong, random);
    case KeyKind::kFewDistinct:
      return fmt::format("key{}", random->Uniform(10));
    case KeyKind::kOne:
      return "the only key";
    case KeyKind::kCount:
      break;
  }
  return "";
}

class TableModelTest : public testing::TestWithParam<TableShape> {
 protected:
  TableModelTest() : queue_pairs_(&memory_, GetParam().direct) {
    options_.format = GetParam().format;
    options_.comparator = GetParam().reverse ? ReverseBytewiseComparator() : BytewiseComparator();
    options_.block_bytes = GetParam().block_bytes;
    options_.compression = GetParam().compression;
    if (GetParam().filter == Filter::kBloom) options_.filter_policy = bloom_.get();
    if (GetParam().filter == Filter::kUser) options_.filter_policy = &first_byte_;
    if (GetParam().cache) cache_.reset(NewLRUCache(64 << 10));
  }

  TestRecords RandomRecords(KeyKind kind, size_t count) {
    std::set<std::string> keys;
    for (size_t i = 0; i < count; ++i) {
      const auto type = random_.OneIn(5) ? ValueType::kDeletion : ValueType::kValue;
      keys.insert(
          MakeInternalKey(RandomKey(kind, &random_), 1 + random_.Uniform(kSequences) * 2, type));
    }
    TestRecords records;
    std::set<std::pair<std::string, SequenceNumber>> seen;  // One type for each version.
    for (const std::string& key : keys) {
      const SequenceNumber sequence = TrailerSequence(ExtractTrailer(key));
      if (!seen.emplace(ExtractUserKey(key).ToString(), sequence).second) continue;
      records.emplace_back(key, random_.Bytes(random_.OneIn(3) ? random_.Skewed(10) : 40));
    }
    SortRecords(options_.comparator, &records);
    return records;
  }

  void Build(const TestRecords& records) {
    BuildTestTable(options_, records, &memory_, &queue_pairs_, &table_, cache_.get());
  }

  // The first record at or after an internal key.
  size_t LowerBound(const TestRecords& records, const Slice& target) const {
    const InternalKeyComparator order(options_.comparator);
    const auto at = std::lower_bound(records.begin(), records.end(), target,
                                     [&order](const TestRecord& record, const Slice& key) {
                                       return order.Compare(record.first, key) < 0;
                                     });
    return static_cast<size_t>(at - records.begin());
  }

  void CheckLookup(const TestRecords& records, const Slice& user_key, SequenceNumber sequence) {
    const size_t at = LowerBound(records, LookupKey(user_key, sequence).internal_key());
    auto expected = LookupState::kAbsent;
    if (at < records.size() && ExtractUserKey(records[at].first) == user_key) {
      const bool deleted = TrailerType(ExtractTrailer(records[at].first)) == ValueType::kDeletion;
      expected = deleted ? LookupState::kDeleted : LookupState::kFound;
    }
    LookupState state{};
    std::string value;
    ASSERT_OK(LookUp(*table_.reader, user_key, sequence, &queue_pairs_, &state, &value));
    ASSERT_EQ(state, expected) << testing::PrintToString(user_key.ToString()) << " at " << sequence;
    if (state == LookupState::kFound) {
      ASSERT_EQ(value, records[at].second);
    }
  }

  void CheckLookups(const TestRecords& records, KeyKind kind) {
    for (const auto& record : records) {
      const SequenceNumber sequence = TrailerSequence(ExtractTrailer(record.first));
      const Slice user_key = ExtractUserKey(record.first);
      for (const SequenceNumber at : {sequence - 1, sequence, sequence + 1, kSequenceNumberMax}) {
        ASSERT_NO_FATAL_FAILURE(CheckLookup(records, user_key, at));
      }
    }
    for (int i = 0; i < static_cast<int>(Rounds(200)); ++i) {
      const SequenceNumber sequence = random_.Uniform(2 * kSequences);
      ASSERT_NO_FATAL_FAILURE(CheckLookup(records, RandomKey(kind, &random_), sequence));
    }
  }

  static void ExpectAt(const Iterator& iterator, const TestRecords& records, size_t i) {
    ASSERT_TRUE(iterator.status().ok()) << iterator.status().ToString();
    ASSERT_EQ(iterator.Valid(), i < records.size());
    if (!iterator.Valid()) return;
    ASSERT_EQ(iterator.key().ToString(), records[i].first);
    ASSERT_EQ(iterator.value().ToString(), records[i].second);
  }

  std::unique_ptr<Iterator> NewIterator() {
    TableReadOptions read_options;
    read_options.prefetch_bytes = static_cast<uint32_t>(1 + random_.Skewed(13));
    read_options.prefetch_bytes_max =
        read_options.prefetch_bytes * static_cast<uint32_t>(1 + random_.Uniform(8));
    return table_.reader->NewIterator(read_options, &queue_pairs_);
  }

  void CheckScans(const TestRecords& records) {
    const auto iterator = NewIterator();
    iterator->SeekToFirst();
    for (size_t i = 0; i <= records.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, records, i));
      if (i < records.size()) iterator->Next();
    }
    iterator->SeekToLast();
    for (size_t i = records.size(); i-- > 0;) {
      ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, records, i));
      iterator->Prev();
    }
    ASSERT_FALSE(iterator->Valid());
  }

  void CheckWalks(const TestRecords& records, KeyKind kind) {
    std::unique_ptr<Iterator> iterator = NewIterator();
    for (int walk = 0; walk < static_cast<int>(Rounds(60)); ++walk) {
      if (random_.OneIn(10)) iterator = NewIterator();
      const std::string target =
          random_.OneIn(2) ? records[random_.Uniform(records.size())].first
                           : MakeInternalKey(RandomKey(kind, &random_), random_.Uniform(99));
      iterator->Seek(target);
      size_t at = LowerBound(records, target);
      for (uint64_t step = 0; step < 40; ++step) {
        ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, records, at));
        if (!iterator->Valid()) break;
        if (random_.OneIn(2)) {
          iterator->Next();
          ++at;
        } else {
          iterator->Prev();
          at = at == 0 ? records.size() : at - 1;
        }
      }
    }
  }

  // A key of the table, one right behind it, or any other.
  std::string SomeBound(const TestRecords& records, KeyKind kind) {
    if (random_.OneIn(3)) return RandomKey(kind, &random_);
    const std::string& key = records[random_.Uniform(records.size())].first;
    return ExtractUserKey(key).ToString() + (random_.OneIn(2) ? std::string(1, '\0') : "");
  }

  void CheckRange(const TestRecords& records, const Slice& start, const Slice& limit) {
    constexpr uint64_t kBlockOverhead = 16;  // If a record has a block of its own.
    const bool blocks = options_.format == TableFormat::kBlockBased;
    std::map<std::string, uint64_t> bytes_of_keys;
    uint64_t exact = 0;
    uint64_t block_bytes = 0;
    for (const auto& [key, value] : records) {
      const Slice user_key = ExtractUserKey(key);
      const uint64_t bytes = RecordBytes(key.size(), value.size()) + (blocks ? kBlockOverhead : 0);
      bytes_of_keys[user_key.ToString()] += bytes;
      block_bytes = std::max(block_bytes, options_.block_bytes + 2 * bytes);
      if (options_.comparator->Compare(start, user_key) <= 0 &&
          options_.comparator->Compare(user_key, limit) < 0) {
        exact += bytes;
      }
    }
    uint64_t key_bytes = 0;
    for (const auto& [user_key, bytes] : bytes_of_keys) key_bytes = std::max(key_bytes, bytes);
    const uint64_t about =
        table_.reader->ApproximateBytes(LookupKey(start, kSequenceNumberMax).internal_key(),
                                        LookupKey(limit, kSequenceNumberMax).internal_key());
    SCOPED_TRACE(testing::Message()
                 << testing::PrintToString(start.ToString()) << " to "
                 << testing::PrintToString(limit.ToString()) << ": " << about << " for " << exact);
    ASSERT_TRUE(about > 0 || exact == 0);
    ASSERT_LE(about, exact + (blocks ? block_bytes : key_bytes));
    // Blocks have keys without what those before have in common with them.
    ASSERT_TRUE(blocks || about + key_bytes >= exact);
  }

  static constexpr uint64_t kSequences = 50;

  const std::unique_ptr<const FilterPolicy> bloom_{NewBloomFilterPolicy(10)};
  const FirstByteFilter first_byte_;
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  TableOptions options_;
  std::unique_ptr<Cache> cache_;
  TestTable table_;
  Random random_{2026};
};

TEST_P(TableModelTest, ReadsLikeItsRecords) {
  for (int kind_number = 0; kind_number < static_cast<int>(KeyKind::kCount); ++kind_number) {
    const auto kind = static_cast<KeyKind>(kind_number);
    for (const size_t count : {1, 2, 16, 17, 33, 700}) {
      SCOPED_TRACE(testing::Message() << "kind " << kind_number << " count " << count);
      const TestRecords records = RandomRecords(kind, count);
      ASSERT_NO_FATAL_FAILURE(Build(records));
      EXPECT_EQ(table_.meta.smallest, records.front().first);
      EXPECT_EQ(table_.meta.largest, records.back().first);
      ASSERT_NO_FATAL_FAILURE(CheckLookups(records, kind));
      ASSERT_NO_FATAL_FAILURE(CheckScans(records));
      ASSERT_NO_FATAL_FAILURE(CheckWalks(records, kind));
    }
  }
}

// Many versions of one key span many groups, or blocks: a lookup at any sequence number must go to
// the right one of them.
TEST_P(TableModelTest, FindsAnyOfManyVersions) {
  TestRecords records;
  for (SequenceNumber sequence = 1; sequence <= 300; ++sequence) {
    records.emplace_back(MakeInternalKey("many", sequence * 2), fmt::format("{}", sequence));
  }
  for (const char* other : {"", "man", "many0", "manz", "zzz"}) {
    records.emplace_back(MakeInternalKey(other, 7), other);
  }
  SortRecords(options_.comparator, &records);
  ASSERT_NO_FATAL_FAILURE(Build(records));
  for (SequenceNumber sequence = 0; sequence <= 602; ++sequence) {
    ASSERT_NO_FATAL_FAILURE(CheckLookup(records, "many", sequence));
  }
  for (const char* other :
       {"", "m", "man", "many", "many/", "many0", "many1", "manz", "n", "zzz"}) {
    ASSERT_NO_FATAL_FAILURE(CheckLookup(records, other, 1000));
    ASSERT_NO_FATAL_FAILURE(CheckLookup(records, other, 5));
  }
  ASSERT_NO_FATAL_FAILURE(CheckScans(records));
}

// Records far larger than any window or block, next to small ones.
TEST_P(TableModelTest, HoldsLargeValues) {
  TestRecords records;
  for (int i = 0; i < 40; ++i) {
    const uint64_t bytes = i % 10 == 3 ? random_.Uniform(3 << 20) : random_.Uniform(100);
    records.emplace_back(MakeInternalKey(fmt::format("{:04}", i), 9), std::string(bytes, 'v'));
    if (bytes > 4) std::memcpy(records.back().second.data() + bytes / 2, "seed", 4);
  }
  SortRecords(options_.comparator, &records);
  ASSERT_NO_FATAL_FAILURE(Build(records));
  for (const auto& [key, value] : records) {
    ASSERT_NO_FATAL_FAILURE(CheckLookup(records, ExtractUserKey(key), 9));
  }
  ASSERT_NO_FATAL_FAILURE(CheckScans(records));
}

// A lookup costs at most one fetch; in a byte-addressable table a hit is exactly its record.
TEST_P(TableModelTest, FetchesOnce) {
  const TestRecords records = RandomRecords(KeyKind::kDecimal, 500);
  ASSERT_NO_FATAL_FAILURE(Build(records));
  for (const auto& [key, value] : records) {
    TableProbe probe;
    const LookupKey lookup(ExtractUserKey(key), TrailerSequence(ExtractTrailer(key)));
    ASSERT_TRUE(table_.reader->Find(lookup, /*filtered=*/false, &probe));
    if (options_.format == TableFormat::kByteAddressable) {
      EXPECT_LE(probe.span.bytes, key.size() + value.size() + 8);
      const WireCounts before = queue_pairs_.Counts();
      ASSERT_NO_FATAL_FAILURE(
          CheckLookup(records, lookup.user_key(), TrailerSequence(ExtractTrailer(key))));
      const WireCounts cost = queue_pairs_.Counts() - before;
      EXPECT_EQ(cost.round_trips, 1);
      EXPECT_EQ(cost.work_requests, 1);
      EXPECT_EQ(cost.read_bytes, probe.span.bytes);
    }
  }
}

TEST_P(TableModelTest, OffsetsAscend) {
  const TestRecords records = RandomRecords(KeyKind::kDecimal, 500);
  ASSERT_NO_FATAL_FAILURE(Build(records));
  uint64_t last = 0;
  for (const auto& [key, value] : records) {
    const uint64_t offset = table_.reader->ApproximateOffsetOf(key);
    EXPECT_GE(offset, last);
    EXPECT_LE(offset, table_.meta.data_bytes);
    last = offset;
  }
  const std::string after_all = MakeInternalKey(
      options_.comparator == BytewiseComparator() ? std::string(30, '\xff') : std::string(), 0);
  EXPECT_EQ(table_.reader->ApproximateOffsetOf(after_all), table_.meta.data_bytes);
}

// Fails if a range is off by more than the versions of one key (by more than a block, where the
// index knows blocks only), or if one that holds something is 0.
TEST_P(TableModelTest, RangesAreOffByOneKeyAtMost) {
  for (int kind_number = 0; kind_number < static_cast<int>(KeyKind::kCount); ++kind_number) {
    const auto kind = static_cast<KeyKind>(kind_number);
    SCOPED_TRACE(testing::Message() << "kind " << kind_number);
    const TestRecords records = RandomRecords(kind, 300);
    ASSERT_NO_FATAL_FAILURE(Build(records));
    for (int i = 0; i < static_cast<int>(Rounds(60)); ++i) {
      std::string start = SomeBound(records, kind);
      std::string limit = random_.OneIn(4) ? start + "x" : SomeBound(records, kind);
      if (options_.comparator->Compare(start, limit) > 0) start.swap(limit);
      ASSERT_NO_FATAL_FAILURE(CheckRange(records, start, limit));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryShape, TableModelTest, testing::ValuesIn(AllTableShapes()),
                         [](const auto& shape) { return TableShapeName(shape.param); });

}  // namespace
}  // namespace dlsm
