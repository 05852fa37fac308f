// What a move of an iterator costs beside what it shows, and its end.
#include "db/db_iterator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>

#include "dLSM/statistics.h"
#include "db/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "table/merging_iterator.h"
#include "util/fabric/wire_cost.h"

namespace dlsm {
namespace {

constexpr char kName[] = "iterators";

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
  std::unique_ptr<DB> db = OpenOrDie(options, kName);
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
  CloseAndDestroy(&db, options, kName);
}

// Who destroys an iterator has counted nothing so far, and there is no memory for counters. Fails
// if that ends the process.
TEST(IteratorMemoryTest, NoneIsNeededToEnd) {
  const InternalKeyComparator comparator(BytewiseComparator());
  std::unique_ptr<Iterator> iterator =
      NewDbIterator(comparator, NewMergingIterator(comparator, {}), DbIteratorOptions(),
                    /*holder=*/nullptr, CreateStatistics());
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_OK(iterator->status());
  const port::FailingAllocationsAt failing("per thread");
  iterator.reset();
  EXPECT_GT(failing.failed(), 0u);
}

}  // namespace
}  // namespace dlsm
