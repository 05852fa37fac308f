#include "table/table_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "table/table_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr size_t kInternalBoundBytesMax = kShortKeyBytes + kTrailerBytes;

// Of keys that a merge reads, no more than their tables' metas count.
class MetaOnly final : public TableReader {
 public:
  explicit MetaOnly(const TableMeta& meta) : TableReader(meta) {}
  bool Find(const LookupKey&, bool, TableProbe*) const override { return false; }
  Status Decode(const LookupKey&, const TableProbe&, const Slice&, const TableReadOptions&,
                LookupResult*) const override {
    return Status::NotSupported("it has no records");
  }
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions&, QueuePairs*) const override {
    return nullptr;
  }
  OffsetBounds BoundOffset(const Slice&) const override { return {}; }
  size_t resident_bytes() const override { return 0; }
};

TableMeta MetaOf(const std::string& first, const std::string& last) {
  TableMeta meta;
  meta.smallest = first;
  meta.largest = last;
  return meta;
}

// Long keys of few different bytes, so that they share prefixes of all lengths.
std::string SomeLongKey(Random* random) {
  constexpr char kBytes[] = {'\0', 'a', 'b', '\xfe', '\xff'};
  std::string key(random->OneIn(3) ? 0 : 110 + random->Uniform(60), 'p');
  while (!random->OneIn(12)) key.push_back(kBytes[random->Uniform(sizeof(kBytes))]);
  if (random->OneIn(2)) key.append(random->Uniform(200), random->OneIn(2) ? '\xff' : 'q');
  return key;
}

class BoundsTest : public testing::TestWithParam<const Comparator*> {
 protected:
  // Some versions of some keys, in order.
  std::vector<std::string> SomeRecords() {
    std::vector<std::string> records;
    for (uint64_t i = 2 + random_.Uniform(30); i > 0; --i) {
      const std::string key = SomeLongKey(&random_);
      for (uint64_t version = 1 + random_.Skewed(1); version > 0; --version) {
        records.push_back(MakeInternalKey(key, 1 + version));
      }
    }
    Sort(&records);
    records.erase(std::unique(records.begin(), records.end()), records.end());
    return records;
  }
  void Sort(std::vector<std::string>* records) const {
    std::ranges::sort(*records, [this](const std::string& a, const std::string& b) {
      return order_.Compare(a, b) < 0;
    });
  }

  // Cuts the records into tables, at the cut points and anywhere else, and gives their metas.
  std::vector<TableMeta> MakeTables(const std::vector<std::string>& records,
                                    const std::vector<std::string>& cuts, TableBounds* bounds) {
    std::vector<TableMeta> tables;
    size_t first = 0;
    for (size_t i = 1; i <= records.size(); ++i) {
      const bool ends = i == records.size();
      if (!ends && !random_.OneIn(3) && !HasCut(cuts, records[i - 1], records[i])) continue;
      tables.push_back(MetaOf(records[first], records[i - 1]));
      const Slice next = ends ? Slice() : Slice(records[i]);
      EdgeKeys edges;
      for (size_t each = first + 1; each < i; ++each) {
        const Slice before = ExtractUserKey(records[each - 1]);
        const Slice key = ExtractUserKey(records[each]);
        if (order_.CompareUserKeys(before, key) != 0) edges.Note(before, key);
      }
      bounds->Set(edges, ends ? nullptr : &next, &tables.back());
      ExpectHolds(tables.back(), records[first], records[i - 1]);
      first = i;
    }
    ExpectDisjoint(tables);
    return tables;
  }
  bool HasCut(const std::vector<std::string>& cuts, const Slice& a, const Slice& b) const {
    return std::ranges::any_of(cuts, [&](const std::string& cut) {
      return order_.CompareUserKeys(ExtractUserKey(a), cut) < 0 &&
             order_.CompareUserKeys(cut, ExtractUserKey(b)) <= 0;
    });
  }

  void ExpectHolds(const TableMeta& meta, const std::string& first, const std::string& last) {
    EXPECT_LE(order_.Compare(meta.smallest, first), 0);
    EXPECT_LE(order_.Compare(last, meta.largest), 0);
    EXPECT_LE(meta.smallest.size(), first.size());
    EXPECT_LE(meta.largest.size(), last.size());
    EXPECT_TRUE(first.size() > kInternalBoundBytesMax || meta.smallest == first);
    EXPECT_TRUE(last.size() > kInternalBoundBytesMax || meta.largest == last);
    EXPECT_TRUE(IsValidInternalKey(meta.smallest));
    EXPECT_TRUE(IsValidInternalKey(meta.largest));
  }
  void ExpectDisjoint(const std::vector<TableMeta>& tables) const {
    for (size_t i = 1; i < tables.size(); ++i) {
      ASSERT_LT(order_.Compare(tables[i - 1].largest, tables[i].smallest), 0);
    }
  }

  Random random_{7};
  const InternalKeyComparator order_{GetParam()};
};

// Fails if a table's bounds do not hold all of its records, or overlap the next table's, or are
// longer than keys; or if a short key is not its own bound.
TEST_P(BoundsTest, HoldTheRecordsOfTheirTablesAndNoOthers) {
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    TableBounds bounds(order_);
    ASSERT_NO_FATAL_FAILURE(MakeTables(SomeRecords(), {}, &bounds));
    if (HasFailure()) return;
  }
}

// Fails if bounds leave what was merged, the merge's range, or the guard of their table: there
// other tables may be.
TEST_P(BoundsTest, OfAMergeStayWithinItsRange) {
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    std::vector<std::string> records = SomeRecords();
    MergeOptions options;
    options.table.comparator = GetParam();
    // The inputs' bounds may have been shortened themselves.
    TableMeta input = MetaOf(records.front(), records.back());
    if (random_.OneIn(2)) TableBounds(order_).Set(EdgeKeys(), nullptr, &input);
    const MetaOnly reader(input);
    std::set<std::string> keys;  // Cut points: of the table's, and others.
    for (int i = 0; i < 4; ++i) {
      keys.insert(ExtractUserKey(records[random_.Uniform(records.size())]).ToString());
      keys.insert(SomeLongKey(&random_));
    }
    options.cut_points.assign(keys.begin(), keys.end());
    std::ranges::sort(options.cut_points, [this](const std::string& a, const std::string& b) {
      return order_.CompareUserKeys(a, b) < 0;
    });
    options.has_begin = random_.OneIn(2);
    options.has_end = random_.OneIn(2);
    options.begin = ExtractUserKey(records[records.size() / 4]).ToString();
    options.end = ExtractUserKey(records[records.size() * 3 / 4]).ToString();
    std::erase_if(records, [&](const std::string& record) {
      const Slice key = ExtractUserKey(record);
      return (options.has_begin && order_.CompareUserKeys(key, options.begin) < 0) ||
             (options.has_end && order_.CompareUserKeys(key, options.end) >= 0);
    });
    if (records.empty()) continue;
    TableBounds bounds(options, {{&reader}});
    const std::vector<TableMeta> tables = MakeTables(records, options.cut_points, &bounds);
    for (const TableMeta& table : tables) {
      const Slice smallest = ExtractUserKey(table.smallest);
      const Slice largest = ExtractUserKey(table.largest);
      EXPECT_LE(order_.Compare(input.smallest, table.smallest), 0);
      EXPECT_LE(order_.Compare(table.largest, input.largest), 0);
      EXPECT_TRUE(!options.has_begin || order_.CompareUserKeys(options.begin, smallest) <= 0);
      EXPECT_TRUE(!options.has_end || order_.CompareUserKeys(largest, options.end) < 0);
      EXPECT_FALSE(HasCut(options.cut_points, table.smallest, table.largest));
    }
    if (HasFailure()) return;
  }
}

// Fails if keys that a few bytes tell apart have long bounds.
TEST_P(BoundsTest, AreShortWhereKeysDifferEarly) {
  std::vector<std::string> records;
  for (int i = 0; i < 20; ++i) records.push_back(MakeInternalKey(random_.Bytes(1 << 16), 9));
  Sort(&records);
  TableBounds bounds(order_);
  for (const TableMeta& table : MakeTables(records, {}, &bounds)) {
    EXPECT_LE(table.smallest.size(), kInternalBoundBytesMax + 10);
    EXPECT_LE(table.largest.size(), kInternalBoundBytesMax + 10);
  }
}

// Fails if tables that are not made together overlap by their bounds, though not by their keys,
// where all keys, or all at an edge, begin with the same bytes.
TEST_P(BoundsTest, OfTablesMadeApartDoNotOverlap) {
  const std::string common(1000, 'k');
  std::vector<std::string> records = {MakeInternalKey("a" + common, 9),
                                      MakeInternalKey("z" + common, 9)};
  for (int i = 0; i < 40; ++i) {
    records.push_back(MakeInternalKey(common + random_.Bytes(400), 9));
  }
  Sort(&records);
  std::vector<TableMeta> tables;
  for (size_t i = 0; i < records.size(); i += 6) {
    TableBounds apart(order_);
    const std::vector<std::string> some(records.begin() + static_cast<ptrdiff_t>(i),
                                        records.begin() + static_cast<ptrdiff_t>(i + 6));
    EdgeKeys edges;
    for (size_t each = 1; each < some.size(); ++each) {
      edges.Note(ExtractUserKey(some[each - 1]), ExtractUserKey(some[each]));
    }
    tables.push_back(MetaOf(some.front(), some.back()));
    apart.Set(edges, nullptr, &tables.back());
    EXPECT_LE(tables.back().smallest.size(), common.size() + kInternalBoundBytesMax + 10);
  }
  ExpectDisjoint(tables);
}

// Fails if bounds are made of keys that only their own order can compare.
TEST(TableBoundsTest, OfAnyOtherOrderAreWholeKeys) {
  class Own final : public Comparator {
   public:
    int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
    const char* Name() const override { return "test.Own"; }
    void FindShortestSeparator(std::string*, const Slice&) const override {}
    void FindShortSuccessor(std::string*) const override {}
  };
  const Own own;
  TableBounds bounds{InternalKeyComparator(&own)};
  const std::string first = MakeInternalKey(std::string(500, 'a'), 1);
  const std::string last = MakeInternalKey(std::string(500, 'b'), 1);
  TableMeta meta = MetaOf(first, last);
  bounds.Set(EdgeKeys(), nullptr, &meta);
  EXPECT_EQ(meta.smallest, first);
  EXPECT_EQ(meta.largest, last);
}

std::string OrderName(const testing::TestParamInfo<const Comparator*>& info) {
  return info.param == BytewiseComparator() ? "Bytewise" : "Reverse";
}

INSTANTIATE_TEST_SUITE_P(EveryOrder, BoundsTest,
                         testing::Values(BytewiseComparator(), ReverseBytewiseComparator()),
                         OrderName);

}  // namespace
}  // namespace dlsm
