// What a move of an iterator costs beside what it shows, and its end.
#include "db/read/db_iterator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/statistics.h"
#include "db/test/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "table/merging_iterator.h"
#include "table/reader_of_node_testing.h"
#include "table/run_iterator.h"
#include "table/table_testing.h"
#include "util/fabric/wire_cost.h"

namespace dlsm {
namespace {

constexpr char kIteratorsName[] = "iterators";

// What reads have fetched from memory nodes.
uint64_t BytesRead(DB* db) {
  std::string text;
  EXPECT_TRUE(db->GetProperty("dlsm.wire", &text));
  std::istringstream lines(text);
  std::string purpose;
  uint64_t round_trips = 0, work_requests = 0, doorbells = 0, bytes = 0;
  for (std::string rest; lines >> purpose >> round_trips >> work_requests >> doorbells >> bytes;) {
    if (purpose == PurposeName(Purpose::kRead)) return bytes;
    std::getline(lines, rest);
  }
  ADD_FAILURE() << "no reads in " << text;
  return 0;
}

// Fails if who looks for the last key at or before a target is made to pass over what lies behind
// it, here nothing but deletions.
TEST(IteratorCostTest, SeekForPrevDoesNotPassWhatLiesBehind) {
  const TestNode node;
  Options options = node.With(TinyOptions(), "tcp");
  options.write_buffer_size = size_t{32} << 20;
  options.compaction_style = CompactionStyle::kLeveled;  // Nothing is merged that is not due.
  options.level0_file_num_compaction_trigger = 100;
  options.level0_stop_writes_trigger = 200;
  std::unique_ptr<DB> db = OpenOrDie(options, kIteratorsName);
  ASSERT_OK(db->Put(WriteOptions(), "a", "first"));
  ASSERT_OK(db->Put(WriteOptions(), "m", "old"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->Put(WriteOptions(), "m", "middle"));
  for (uint64_t i = 0; i < 100'000; ++i) {
    ASSERT_OK(db->Delete(WriteOptions(), "n" + NumberedKey(i)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_GT(NumberProperty(db.get(), "dlsm.table-bytes"), uint64_t{2} << 20);

  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  constexpr uint64_t kBytesMax = 64 << 10;  // A few windows.
  uint64_t before = BytesRead(db.get());
  const auto expect = [&](const Slice& target, const Slice& key, const Slice& value) {
    iterator->SeekForPrev(target);
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    EXPECT_EQ(iterator->key(), key);
    EXPECT_EQ(iterator->value(), value);
    const uint64_t now = BytesRead(db.get());
    EXPECT_LT(now - before, kBytesMax) << target.ToString();
    before = now;
  };
  expect("mm", "m", "middle");
  expect("m", "m", "middle");
  expect("l", "a", "first");
  iterator->SeekForPrev("Z");
  EXPECT_FALSE(iterator->Valid());
  EXPECT_OK(iterator->status());
  iterator->SeekForPrev("zz");
  ASSERT_TRUE(iterator->Valid()) << "it has to pass them all";
  EXPECT_EQ(iterator->key(), Slice("m"));
  iterator->Prev();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), Slice("a"));
  iterator->Next();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), Slice("middle"));
  CloseAndDestroy(&db, options, kIteratorsName);
}

// The thread that destroys an iterator has counted nothing so far, and there is no memory for its
// counters. Fails if an exception leaves the destructor, or if the process ends without a word.
TEST(IteratorMemoryTest, ASmallAllocationThatFailsEndsTheProcess) {
  const auto destroy_one = [] {  // In the process that makes it: elsewhere nothing is destroyed.
    const InternalKeyComparator comparator(BytewiseComparator());
    std::unique_ptr<Iterator> iterator =
        NewDbIterator(comparator, NewMergingIterator(comparator, {}), DbIteratorOptions(),
                      /*holder=*/nullptr, CreateStatistics());
    iterator->SeekToFirst();
    const port::FailingAllocationsAt failing("per thread");
    iterator.reset();
  };
  EXPECT_DEATH(destroy_one(), "dlsm: out of memory: ");
}

// Fails if moves and positionings are not counted, or are before the iterator has ended: it counts
// for itself.
TEST(IteratorCountsTest, AreAddedWhenItIsDeleted) {
  const auto db = OpenOrDie(TinyOptions(), kIteratorsName);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "value"));
  const std::shared_ptr<Statistics> counts = db->GetStatistics();
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  for (int i = 0; i < 5; ++i) iterator->Next();
  iterator->Seek(NumberedKey(7));
  iterator->Prev();
  EXPECT_EQ(counts->Get(Ticker::kIteratorSteps), 0u);
  iterator.reset();
  EXPECT_EQ(counts->Get(Ticker::kIteratorSteps), 6u);
  EXPECT_EQ(counts->Get(Ticker::kSeeks), 2u);
  EXPECT_EQ(counts->Get(Ticker::kIteratorsCreated), 1u);
}

// The key that was shown lies in place, in a table that has ended. What is passed behind it, an
// older version or one that is too new, takes further steps, and in one of them the memory of that
// key is lost, and becomes others'. Fails if it is still compared with what comes.
TEST(IteratorLostMemoryTest, AKeyIsNotLookedAtWhereItWasLeftStepsAgo) {
  struct Case {
    std::string shown, passed, last;
    std::string follows;  // What is shown next; empty: nothing.
  };
  const Case cases[] = {
      {MakeInternalKey("a", 3), MakeInternalKey("a", 2), MakeInternalKey("a", 1), ""},
      {MakeInternalKey("a", 3), MakeInternalKey("b", 9), MakeInternalKey("b", 2), "b"},
  };
  const InternalKeyComparator comparator(BytewiseComparator());
  TableReadOptions read_options;
  read_options.verify_checksums = false;  // Or nothing is read in place.
  DbIteratorOptions options;
  options.sequence = 5;
  for (const Case& each : cases) {
    SCOPED_TRACE("then " + each.follows);
    TestMemory memory;
    MemoryQueuePairs first(&memory, /*direct=*/true);
    MemoryQueuePairs second(&memory, /*direct=*/true);
    TestTable shown, passed, last;
    BuildTestTable(TableOptions(), {{each.shown, "value"}}, &memory, &first, &shown);
    BuildTestTable(TableOptions(), {{each.passed, "value"}}, &memory, &second, &passed);
    BuildTestTable(TableOptions(), {{each.last, "value"}}, &memory, &second, &last);
    const auto lose = [&] {
      const RemoteSpan lost = shown.meta.data_span();
      char* const bytes = memory.At(lost);
      std::replace(bytes, bytes + lost.bytes, 'a', 'b');
      first.LoseANode(/*this_one=*/true);
    };
    const ReaderOfNode begins(passed.meta, passed.reader.get(), &second);
    const ReaderOfNode ends(last.meta, last.reader.get(), &second, lose);
    const std::vector<const TableReader*> run = {&begins, &ends};
    std::vector<MergingSource> sources;
    sources.emplace_back(shown.reader->NewIterator(read_options, &first));
    sources.emplace_back(
        NewRunIterator(comparator, RunView{run, nullptr, Slice()}, read_options, &second));
    const std::unique_ptr<Iterator> iterator = NewDbIterator(
        comparator, NewMergingIterator(comparator, std::move(sources), &first), options,
        /*holder=*/nullptr, CreateStatistics());
    iterator->SeekToFirst();
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    EXPECT_EQ(iterator->key(), Slice("a"));
    iterator->Next();
    EXPECT_OK(iterator->status());
    EXPECT_EQ(iterator->Valid() ? iterator->key().ToString() : "", each.follows);
  }
}

}  // namespace
}  // namespace dlsm
