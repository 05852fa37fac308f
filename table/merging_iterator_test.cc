#include "table/merging_iterator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "table/table_testing.h"

namespace dlsm {
namespace {

// Five overlapping tables: key i is in table i modulo 5.
class MergingIteratorTest : public testing::Test {
 protected:
  static constexpr int kTables = 5;
  static constexpr int kRecords = 1000;

  void Build(bool direct) {
    queue_pairs_ = std::make_unique<MemoryQueuePairs>(&memory_, direct);
    for (int t = 0; t < kTables; ++t) {
      TestRecords records;
      for (int i = t; i < kRecords; i += kTables) {
        records.emplace_back(KeyOf(i), std::string(400, 'v'));
      }
      BuildTestTable(TableOptions(), records, &memory_, queue_pairs_.get(), &tables_[t]);
    }
  }
  static std::string KeyOf(int i) { return MakeInternalKey(fmt::format("{:06}", i), 1); }

  std::unique_ptr<Iterator> NewIterator() {
    std::vector<MergingSource> sources;
    for (const TestTable& table : tables_) {
      sources.push_back(table.reader->NewIterator(TableReadOptions(), queue_pairs_.get()));
    }
    return NewMergingIterator(InternalKeyComparator(BytewiseComparator()), std::move(sources));
  }
  // Some keys from `first` on.
  void ExpectFrom(Iterator* iterator, int first) {
    for (int i = first; i < std::min(first + 8, kRecords); ++i) {
      ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
      EXPECT_EQ(iterator->key(), Slice(KeyOf(i)));
      iterator->Next();
    }
  }

  TestMemory memory_;
  std::unique_ptr<MemoryQueuePairs> queue_pairs_;
  TestTable tables_[kTables];
};

// Fails if the tables' reads are waited for one after the other.
TEST_F(MergingIteratorTest, SeeksInAllTablesInOneRoundTrip) {
  Build(/*direct=*/false);
  const auto iterator = NewIterator();
  for (const int at : {500, 7, 999, 0, 501}) {
    const WireCounts before = queue_pairs_->Counts();
    iterator->Seek(KeyOf(at));
    const WireCounts cost = queue_pairs_->Counts() - before;
    // A table whose first candidate is before the target may have to read on.
    EXPECT_LE(cost.round_trips, 2u) << at;
    EXPECT_LE(cost.work_requests, kTables + 1u) << at;
    ExpectFrom(iterator.get(), at);
  }
}

// Fails if preparing reads anything where tables are read in place.
TEST_F(MergingIteratorTest, PreparesNothingWhereTablesAreMapped) {
  Build(/*direct=*/true);
  const auto iterator = NewIterator();
  const WireCounts before = queue_pairs_->Counts();
  iterator->Seek(KeyOf(500));
  EXPECT_EQ((queue_pairs_->Counts() - before).work_requests, uint64_t{kTables});
  EXPECT_EQ(queue_pairs_->Mine()->outstanding(), 0u);
  ExpectFrom(iterator.get(), 500);
}

// Fails if an error of a prepared read is lost, or a table that could not be read is passed over.
TEST_F(MergingIteratorTest, FailedPreparationIsAnErrorOrReadAgain) {
  Build(/*direct=*/false);
  for (int n = 0; n < kTables + 2; ++n) {
    const auto iterator = NewIterator();
    queue_pairs_->FailAfter(n);
    iterator->Seek(KeyOf(500));
    if (iterator->Valid()) {
      ExpectFrom(iterator.get(), 500);
    } else {
      EXPECT_TRUE(iterator->status().IsIOError()) << n;
    }
    queue_pairs_->FailNone();
    iterator->Seek(KeyOf(300));
    ExpectFrom(iterator.get(), 300);
  }
}

}  // namespace
}  // namespace dlsm
