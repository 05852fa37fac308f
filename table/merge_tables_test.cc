// Merges against a model that tries every snapshot: what anyone could read before, they must read
// after, and nothing that nobody can read may stay.
#include "table/merge_tables.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>

#include "dLSM/filter_policy.h"
#include "table/merging_iterator.h"
#include "table/run_iterator.h"
#include "table/table_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

// Keeps outputs in test memory.
class TestOutput final : public MergeOutput {
 public:
  TestOutput(TestMemory* memory, QueuePairs* queue_pairs)
      : memory_(memory), queue_pairs_(queue_pairs) {}

  Status NewTable(uint64_t bytes, std::unique_ptr<TableSink>* sink) override {
    image_ = memory_->Allocate(bytes);
    capacities.push_back(bytes);
    return RemoteSink::Open(image_, queue_pairs_, Purpose::kCompaction, std::chrono::seconds(10),
                            sink);
  }
  Status TableDone(TableMeta meta, const Slice& resident) override {
    meta.image = image_.Sub(0, meta.image.bytes);
    tables.push_back(TestTable{std::move(meta), resident.ToString(), nullptr});
    return Status::OK();
  }

  std::vector<uint64_t> capacities;
  std::vector<TestTable> tables;

 private:
  TestMemory* const memory_;
  QueuePairs* const queue_pairs_;
  RemoteSpan image_;
};

struct MergeShape {
  TableFormat from = TableFormat::kByteAddressable;
  TableFormat to = TableFormat::kByteAddressable;
  bool reverse = false;
  bool direct = false;
};

std::string MergeShapeName(const MergeShape& shape) {
  const auto format = [](TableFormat f) {
    return f == TableFormat::kBlockBased ? "Block" : "Byte";
  };
  return fmt::format("{}To{}{}{}", format(shape.from), format(shape.to),
                     shape.reverse ? "Reverse" : "", shape.direct ? "Direct" : "");
}
void PrintTo(const MergeShape& shape, std::ostream* out) { *out << MergeShapeName(shape); }

std::vector<MergeShape> AllMergeShapes() {
  std::vector<MergeShape> shapes;
  for (const auto from : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
    for (const auto to : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
      for (const bool direct : {false, true}) {
        shapes.push_back(MergeShape{from, to, false, direct});
        shapes.push_back(MergeShape{from, to, true, direct});
      }
    }
  }
  return shapes;
}

class CancelledOrNot final : public MergePace {
 public:
  explicit CancelledOrNot(bool cancelled) : cancelled_(cancelled) {}
  Status Proceed(uint64_t) override {
    return cancelled_ ? Status::Aborted("cancelled by the test") : Status::OK();
  }

 private:
  const bool cancelled_;
};

class MergeTablesTest : public testing::TestWithParam<MergeShape> {
 protected:
  MergeTablesTest() : queue_pairs_(&memory_, GetParam().direct) {
    merge_.table.comparator =
        GetParam().reverse ? ReverseBytewiseComparator() : BytewiseComparator();
    merge_.table.filter_policy = bloom_.get();
    merge_.table.block_bytes = 500;
    merge_.table.compression = kSnappyCompression;
    merge_.table.format = GetParam().to;
  }

  const Comparator* comparator() const { return merge_.table.comparator; }

  // Records dealt out to runs, each run cut into tables between user keys.
  void MakeRuns(const TestRecords& records, size_t run_count) {
    tables_.clear();
    runs_.clear();
    runs_.resize(run_count);
    std::vector<TestRecords> parts(run_count);
    for (const TestRecord& record : records) parts[random_.Uniform(run_count)].push_back(record);
    TableOptions options = merge_.table;
    options.format = GetParam().from;
    for (size_t run = 0; run < run_count; ++run) {
      size_t begin = 0;
      while (begin < parts[run].size()) {
        size_t end = std::min(parts[run].size(), begin + 1 + random_.Uniform(100));
        const TestRecords table(parts[run].begin() + static_cast<std::ptrdiff_t>(begin),
                                parts[run].begin() + static_cast<std::ptrdiff_t>(end));
        tables_.push_back(std::make_unique<TestTable>());
        ASSERT_NO_FATAL_FAILURE(
            BuildTestTable(options, table, &memory_, &queue_pairs_, tables_.back().get()));
        runs_[run].push_back(tables_.back()->reader.get());
        begin = end;
      }
    }
  }

  Status Merge(TestOutput* output) {
    CancelledOrNot never(false);
    TableReadOptions read_options;
    read_options.prefetch_bytes = 300;
    read_options.purpose = Purpose::kCompaction;
    return MergeTables(merge_, runs_, read_options, &queue_pairs_, &never, output, &statistics_);
  }

  TestRecords ReadOutputs(TestOutput* output) {
    TestRecords records;
    for (TestTable& table : output->tables) {
      EXPECT_OK(OpenTestTable(merge_.table, nullptr, &table));
      if (table.reader == nullptr) return records;
      const auto iterator = table.reader->NewIterator(TableReadOptions(), &queue_pairs_);
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        records.emplace_back(iterator->key().ToString(), iterator->value().ToString());
      }
      EXPECT_OK(iterator->status());
    }
    return records;
  }

  TestRecords RandomRecords(size_t count, uint64_t distinct) {
    std::map<SequenceNumber, std::string> keys;  // Every sequence number is used once.
    while (keys.size() < count) {
      keys[1 + random_.Uniform(10 * count)] = fmt::format("{:05}", random_.Uniform(distinct));
    }
    TestRecords records;
    for (const auto& [sequence, user_key] : keys) {
      const auto type = random_.OneIn(3) ? ValueType::kDeletion : ValueType::kValue;
      records.emplace_back(MakeInternalKey(user_key, sequence, type),
                           type == ValueType::kValue ? random_.Bytes(random_.Skewed(8)) : "");
    }
    SortRecords(comparator(), &records);
    return records;
  }

  bool InOlder(const Slice& user_key) const {
    return std::any_of(merge_.older.begin(), merge_.older.end(), [&](const KeyRange& range) {
      return comparator()->Compare(range.smallest, user_key) <= 0 &&
             comparator()->Compare(user_key, range.largest) <= 0;
    });
  }

  bool InRange(const Slice& user_key) const {
    return (!merge_.has_begin || comparator()->Compare(merge_.begin, user_key) <= 0) &&
           (!merge_.has_end || comparator()->Compare(user_key, merge_.end) < 0);
  }

  // By trying: a version stays if some reader, at a live snapshot or at the end of time, gets it as
  // the answer; of these, deletions go that hide nothing for anyone.
  TestRecords Expected(const TestRecords& records) const {
    TestRecords expected;
    std::vector<SequenceNumber> readers = merge_.snapshots;
    readers.push_back(kSequenceNumberMax);
    std::map<std::string, std::vector<const TestRecord*>> by_key;
    for (const TestRecord& record : records) {
      by_key[ExtractUserKey(record.first).ToString()].push_back(&record);  // Newest first.
    }
    for (const auto& [user_key, versions] : by_key) {
      if (!InRange(user_key)) continue;
      std::vector<const TestRecord*> kept;
      const TestRecord* last = nullptr;
      for (const SequenceNumber reader : readers) {  // Oldest reader first.
        const auto seen = std::find_if(versions.begin(), versions.end(), [&](const auto* version) {
          return TrailerSequence(ExtractTrailer(version->first)) <= reader;
        });
        if (seen == versions.end() || *seen == last) continue;
        last = *seen;
        const bool deletion = TrailerType(ExtractTrailer((*seen)->first)) == ValueType::kDeletion;
        // The oldest reader sees nothing below it, unless in older tables.
        const bool needless = deletion && reader == readers.front() && !InOlder(user_key);
        if (!needless) kept.push_back(*seen);
      }
      for (const TestRecord* record : kept) expected.push_back(*record);
    }
    SortRecords(comparator(), &expected);
    return expected;
  }

  void CheckTables(const TestOutput& output) const {
    std::optional<std::string> last_largest;
    for (const TestTable& table : output.tables) {
      const std::string smallest = ExtractUserKey(table.meta.smallest).ToString();
      const std::string largest = ExtractUserKey(table.meta.largest).ToString();
      if (last_largest) {
        EXPECT_LT(comparator()->Compare(*last_largest, smallest), 0);
      }
      for (const std::string& cut : merge_.cut_points) {
        EXPECT_FALSE(comparator()->Compare(smallest, cut) < 0 &&
                     comparator()->Compare(cut, largest) <= 0)
            << "a table spans the cut at " << cut;
      }
      EXPECT_LE(table.meta.image.bytes, merge_.table_bytes_max);
      last_largest = largest;
    }
  }

  std::string SomeKey() { return fmt::format("{:05}", random_.Uniform(300)); }

  void RandomizeMerge() {
    merge_.snapshots.clear();
    merge_.older.clear();
    merge_.cut_points.clear();
    for (uint64_t i = random_.Uniform(4); i > 0; --i) {
      merge_.snapshots.push_back(1 + random_.Uniform(4000));
    }
    std::sort(merge_.snapshots.begin(), merge_.snapshots.end());
    const auto before = [this](const std::string& a, const std::string& b) {
      return comparator()->Compare(a, b) < 0;
    };
    std::vector<std::string> bounds;
    for (uint64_t i = random_.Uniform(4) * 2; i > 0; --i) bounds.push_back(SomeKey());
    std::sort(bounds.begin(), bounds.end(), before);
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
      merge_.older.push_back(KeyRange{bounds[i], bounds[i + 1]});
    }
    for (uint64_t i = random_.Uniform(5); i > 0; --i) merge_.cut_points.push_back(SomeKey());
    std::sort(merge_.cut_points.begin(), merge_.cut_points.end(), before);
    merge_.has_begin = random_.OneIn(3);
    merge_.has_end = random_.OneIn(3);
    merge_.begin = SomeKey();
    merge_.end = SomeKey();
    merge_.table_bytes_max = (4 << 10) + random_.Uniform(16 << 10);
  }

  const std::unique_ptr<const FilterPolicy> bloom_{NewBloomFilterPolicy(10)};
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  MergeOptions merge_;
  MergeStatistics statistics_;
  std::vector<std::unique_ptr<TestTable>> tables_;
  std::vector<TableRun> runs_;
  Random random_{12};
};

TEST_P(MergeTablesTest, KeepsWhatSomeoneCanRead) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    RandomizeMerge();
    const TestRecords records = RandomRecords(1 + random_.Uniform(600), 1 + random_.Uniform(300));
    MakeRuns(records, 1 + random_.Uniform(5));
    TestOutput output(&memory_, &queue_pairs_);
    ASSERT_OK(Merge(&output));
    const TestRecords expected = Expected(records);
    ASSERT_EQ(ReadOutputs(&output), expected);
    ASSERT_NO_FATAL_FAILURE(CheckTables(output));
    EXPECT_EQ(statistics_.records_written, expected.size());
    uint64_t bytes_written = 0;
    for (const TestTable& table : output.tables) bytes_written += table.meta.image.bytes;
    EXPECT_EQ(statistics_.bytes_written, bytes_written);
  }
}

// Fails if a table does not end at the first candidate behind its half, or ends at one before it.
TEST_P(MergeTablesTest, EndsHalfFullTablesAtCandidates) {
  TestRecords records;
  for (int i = 0; i < 2000; ++i) {
    records.emplace_back(MakeInternalKey(fmt::format("{:05}", i), 1), random_.Bytes(100));
  }
  SortRecords(comparator(), &records);
  merge_.table_bytes_max = 64 << 10;
  for (const bool by_hash : {false, true}) {
    merge_.cut_candidates.clear();
    merge_.cut_hash_bits = by_hash ? 4 : 0;
    std::set<std::string> candidates;
    for (int i = 0; i < 2000; ++i) {
      const std::string key = fmt::format("{:05}", i);
      if (by_hash ? CutRank(key) >= 4 : i % 20 == 7) candidates.insert(key);
    }
    if (!by_hash) merge_.cut_candidates.assign(candidates.begin(), candidates.end());
    if (GetParam().reverse)
      std::reverse(merge_.cut_candidates.begin(), merge_.cut_candidates.end());
    MakeRuns(records, 2);
    TestOutput output(&memory_, &queue_pairs_);
    ASSERT_OK(Merge(&output));
    ASSERT_EQ(ReadOutputs(&output), records);
    ASSERT_GE(output.tables.size(), 3u);
    for (size_t i = 0; i + 1 < output.tables.size(); ++i) {
      EXPECT_GE(output.tables[i].meta.image.bytes, merge_.table_bytes_max / 4);
      const Slice next = ExtractUserKey(output.tables[i + 1].meta.smallest);
      EXPECT_EQ(candidates.count(next.ToString()), 1u) << next.ToString();
    }
  }
}

// Versions that no single table can hold are split, but only among themselves.
TEST_P(MergeTablesTest, SplitsAKeyOnlyIfItExceedsATable) {
  TestRecords records;
  for (SequenceNumber sequence = 1; sequence <= 60; ++sequence) {
    records.emplace_back(MakeInternalKey("m", sequence), random_.Bytes(1000));
    merge_.snapshots.push_back(sequence);
  }
  for (const char* other : {"a", "b", "y", "z"}) {
    records.emplace_back(MakeInternalKey(other, 70), random_.Bytes(1000));
  }
  SortRecords(comparator(), &records);
  merge_.table_bytes_max = 10000;
  MakeRuns(records, 3);
  TestOutput output(&memory_, &queue_pairs_);
  ASSERT_OK(Merge(&output));
  EXPECT_EQ(ReadOutputs(&output), records);
  EXPECT_GE(output.tables.size(), 6U);
  for (const TestTable& table : output.tables) {
    EXPECT_LE(table.meta.image.bytes, merge_.table_bytes_max);
    if (ExtractUserKey(table.meta.smallest) != Slice("m")) {
      EXPECT_NE(ExtractUserKey(table.meta.largest), Slice("m"));
    }
  }
}

TEST_P(MergeTablesTest, GivesALargeRecordATableOfItsOwn) {
  TestRecords records;
  for (const char* key : {"a", "b", "c", "d"}) {
    records.emplace_back(MakeInternalKey(key, 1), random_.Bytes(key[0] == 'b' ? 3 << 20 : 10));
  }
  SortRecords(comparator(), &records);
  merge_.table_bytes_max = 8 << 10;
  MakeRuns(records, 2);
  TestOutput output(&memory_, &queue_pairs_);
  ASSERT_OK(Merge(&output));
  EXPECT_EQ(ReadOutputs(&output), records);
}

// Fails if a merge of little asks for as much memory as one table may have, which others then lack,
// or ends in crumbs where the inputs hold far more than they show.
TEST_P(MergeTablesTest, AsksForAboutWhatItNeeds) {
  TestRecords records;
  for (int i = 0; i < 8000; ++i) {  // Twenty times smaller when compressed.
    records.emplace_back(MakeInternalKey(fmt::format("{:05}", i), 1), std::string(1000, 'v'));
  }
  SortRecords(comparator(), &records);
  merge_.table.block_bytes = 4096;
  merge_.table_bytes_max = uint64_t{2} << 30;
  MakeRuns(records, 2);
  uint64_t input_bytes = 0;
  for (const auto& table : tables_) input_bytes += table->meta.image.bytes;
  TestOutput output(&memory_, &queue_pairs_);
  ASSERT_OK(Merge(&output));
  EXPECT_EQ(ReadOutputs(&output), records);
  uint64_t output_bytes = 0;
  for (const TestTable& table : output.tables) output_bytes += table.meta.image.bytes;
  for (const uint64_t capacity : output.capacities) {
    EXPECT_LE(capacity, 2 * std::max(input_bytes, output_bytes) + (1 << 20));
  }
  EXPECT_LE(output.tables.size(), 9u);
}

TEST_P(MergeTablesTest, OfNothingIsNothing) {
  TestOutput output(&memory_, &queue_pairs_);
  runs_.resize(2);
  ASSERT_OK(Merge(&output));
  EXPECT_TRUE(output.tables.empty());
  const TestRecords records{{MakeInternalKey("gone", 3, ValueType::kDeletion), ""}};
  MakeRuns(records, 1);
  ASSERT_OK(Merge(&output));
  EXPECT_TRUE(output.capacities.empty());
}

TEST_P(MergeTablesTest, StopsWhenCancelled) {
  MakeRuns(RandomRecords(1000, 1000), 2);
  CancelledOrNot cancelled(true);
  TestOutput output(&memory_, &queue_pairs_);
  EXPECT_TRUE(MergeTables(merge_, runs_, TableReadOptions(), &queue_pairs_, &cancelled, &output,
                          &statistics_)
                  .IsAborted());
}

TEST_P(MergeTablesTest, ReportsEveryFault) {
  const TestRecords records = RandomRecords(500, 500);
  MakeRuns(records, 2);
  int64_t n = 0;
  for (;; ++n) {
    TestOutput output(&memory_, &queue_pairs_);
    queue_pairs_.FailAfter(n);
    const Status status = Merge(&output);
    const bool failed = queue_pairs_.failed();
    queue_pairs_.FailNone();
    EXPECT_EQ(status.ok(), !failed);
    if (!failed) break;
  }
  EXPECT_TRUE(n > 0 || GetParam().direct) << "nothing was transferred";
}

// Whatever happens to the inputs' bytes: an error or the right records, never a crash.
TEST_P(MergeTablesTest, NoticesChangedInputs) {
  const TestRecords records = RandomRecords(60, 40);
  MakeRuns(records, 2);
  const TestRecords expected = Expected(records);
  for (const auto& table : tables_) {
    char* const data = memory_.At(table->meta.image);
    for (uint64_t i = 0; i < table->meta.data_bytes; i += 3) {
      data[i] = static_cast<char>(data[i] ^ 0x10);
      TestOutput output(&memory_, &queue_pairs_);
      const Status status = Merge(&output);
      EXPECT_TRUE(status.IsCorruption()) << status.ToString();
      data[i] = static_cast<char>(data[i] ^ 0x10);
    }
  }
  TestOutput output(&memory_, &queue_pairs_);
  ASSERT_OK(Merge(&output));
  EXPECT_EQ(ReadOutputs(&output), expected);
}

// Tables whose checksums are right but whose records are not in order: the work of a liar.
TEST_P(MergeTablesTest, NoticesRecordsOutOfOrder) {
  const TestRecords first{{MakeInternalKey("a", 1), "x"}, {MakeInternalKey("c", 1), "x"}};
  const TestRecords second{{MakeInternalKey("b", 1), "x"}, {MakeInternalKey("d", 1), "x"}};
  TableOptions options = merge_.table;
  options.format = GetParam().from;
  runs_.resize(1);
  for (const TestRecords* records : {&first, &second}) {
    TestRecords sorted = *records;
    SortRecords(comparator(), &sorted);
    tables_.push_back(std::make_unique<TestTable>());
    BuildTestTable(options, sorted, &memory_, &queue_pairs_, tables_.back().get());
    runs_[0].push_back(tables_.back()->reader.get());  // One run although they overlap.
  }
  TestOutput output(&memory_, &queue_pairs_);
  EXPECT_TRUE(Merge(&output).IsCorruption());
}

// All sources of an iterator merged, in both directions, with turns.
TEST_P(MergeTablesTest, MergingIteratorWalksTheUnion) {
  for (const size_t run_count : {1, 2, 5}) {
    const TestRecords records = RandomRecords(400, 200);
    MakeRuns(records, run_count);
    const InternalKeyComparator order(comparator());
    std::vector<MergingSource> sources;
    for (const TableRun& run : runs_) {
      sources.push_back(
          NewRunIterator(order, RunView{run, nullptr, Slice()}, TableReadOptions(), &queue_pairs_));
    }
    const auto iterator = NewMergingIterator(order, std::move(sources));
    size_t at = 0;
    iterator->SeekToFirst();
    for (int step = 0; step < 4000; ++step) {
      ASSERT_OK(iterator->status());
      ASSERT_EQ(iterator->Valid(), at < records.size());
      if (!iterator->Valid() || random_.OneIn(50)) {
        at = random_.Uniform(records.size());
        iterator->Seek(records[at].first);
        continue;
      }
      ASSERT_EQ(iterator->key(), Slice(records[at].first));
      ASSERT_EQ(iterator->value(), Slice(records[at].second));
      const bool forward = step / 100 % 2 == 0 ? !random_.OneIn(5) : random_.OneIn(5);
      if (forward) {
        iterator->Next();
        ++at;
      } else {
        iterator->Prev();
        at = at == 0 ? records.size() : at - 1;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryShape, MergeTablesTest, testing::ValuesIn(AllMergeShapes()),
                         [](const auto& shape) { return MergeShapeName(shape.param); });

}  // namespace
}  // namespace dlsm
